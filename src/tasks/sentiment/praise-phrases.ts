// The phrases of classify that express praise, and the notation of all phrases.

/**
 * Phrases with their valence, which is not the sum of the valences of their words. A phrase is one line of words: `a|b` matches
 * either word, `a*` matches a word that begins with `a`, `?a` is optional, `~` matches up to four words of any kind. The
 * longest match counts.
 */
export type PhraseList = readonly (readonly [valence: number, lines: string])[];

/** Phrases that praise. */
export const PRAISE: PhraseList = [
  [
    3,
    `made my|our|his|her evening|night|trip|morning|holiday
    exactly|just what i|we wanted|needed|was
    not a|one|single bit|negative|flaw disappointed
    never tasted|eaten|felt|met anything|a|such ?as ?good until
    absolute|a|an|the must visit|try|have|see|read
    all i|we|you could|can|ever ?ever want|need|ask|wanted|hoped|asked
    everything i|we|you could|can|ever ?ever want|need|ask|wanted|hoped|asked
    best ?of ?the ever|yet
    nothing short of
    can't|couldn't|could ~ enough
    can't|couldn't ~ be|been|ask|wish|get|do ?for ?any better|happier|easier|nicer|smoother|prouder
    can't|couldn't ?really ask|wish|hope for more
    don't|doesn't|didn't think|believe ~ can|could|will|would be|get ?any better|happier|easier|nicer|smoother
    doesn't|don't|can't|couldn't|won't get|be ?any ?much better than this|these|it|that
    took|takes my|our|your breath away
    can't|couldn't recommend * more|enough|highly
    never|rarely|hardly|not ?been|had|felt|seen|eaten|tasted|met|used|owned|have ?a|any|anything|something happier|better|nicer|easier|smoother|kinder
    nothing|nobody|none better|beats|compares|like
    above and beyond
    second to none
    one of the|my|our best|greatest|nicest|finest|most
    game changer
    life saver
    worth every|each penny|cent|euro|dollar|minute|mile|star
    five|5 stars|star
    10 out of 10
    ten out of ten
    out of this world
    blew|blown me|us|my|our|away ?away ?mind
    knocked it out of the park
    in a heartbeat
    highly|strongly|definitely|certainly|warmly|totally recommend*
    fell|fall|falling|fallen in love
    exceed*|surpass* ~ expectations
    beyond ?my|our|all expectations
    over the moon
    on cloud nine
    made my|our|his|her day|week|year
    made my|our|his|her whole day|week|year
    of a lifetime
    to die for
    what|such a joy|pleasure|delight|gem|treat|genius|legend|relief
    could ~ live without
    go|goes|went out of their|his|her|your way
    without|not a single complaint|hitch|problem|flaw|fault|issue|glitch
    what more could|can
    laugh*|cried|crying out loud
    laughed until|till|from`,
  ],
  [
    2,
    `wouldn't|don't|won't change a|one|any thing
    wouldn't|won't change anything
    fixed|fixes|solved|solves|resolved|sorted|cured ~ problem*|issue*|bug*|pain
    passed my|the|his|her ~ exam|test
    got the|our|my keys
    won the ~ championship|cup|award|title|medal|prize|game|match|election
    third|fourth|second|fifth time|year in a row
    found|rescued|safe alive|and ?and well|sound
    earned it
    owe you
    saved my|our|the presentation|project|life|day|marriage
    on the first try
    days|hours|weeks|minutes|day|week early
    ever since
    crystal clear
    how|what did i|we ever ~ without
    has|have worked|run ever since
    slaps hard|so
    update|song|album|track|beat|game|show|this|it slaps
    turned ~ into a|an
    why|how did|didn't nobody|anyone|i ~ sooner|earlier
    keep|keeps|kept ?on asking ?me|us where|how
    keep|keeps|kept ?on telling me|us how
    would ?not|never go back to
    can't|won't|will|couldn't ?not find|get|buy|see|have fresher|better|nicer|finer|cheaper|friendlier
    nothing i|we don't|didn't like|love|enjoy
    nothing to|i|we dislike|disliked
    nobody|none ~ dislike|dislikes|disliked
    prefer this|these|it|them
    guys|you rock
    kept|keeps|keep his|her|their|its ?the promise|promises|word
    inflation|unemployment|joblessness|crime|poverty|debt|deficit|deaths|accidents|infections|emissions|losses ?has|have ?sharply fell|fall|falls|fallen|dropped|declined|decreased|eased|shrank|halved|down
    works|worked|work ?perfectly|fine|well|great ?even without|offline
    gets|keeps ?on|getting better
    wouldn't trade ~ for anything|world
    made|makes it|everything|things|life ?so ?much better|easier|simpler
    don't|can't understand|see|get|know how|why anyone|anybody|people could|would|can ?ever dislike|hate|complain
    beats every|all|any|everything|anything|most
    slept|sleep|sleeps like a baby
    profit|profits|sales|revenue|revenues|earnings|exports|wages|shares|stocks ?has|have ?sharply rose|rise|rises|risen|jumped|climbed|surged|soared|grew|doubled
    record profit|profits|sales|revenue|earnings
    raised|raises|lifted ?its|the|their forecast|outlook|guidance
    lowest|record|falling|lower|low|drop|decline|fall ?in|low unemployment|crime|inflation|poverty|emissions
    worn|wear|used|use|played|read|eaten ?these|it|this|them|here every day|week|since
    stayed for the|an encore|extra|another
    in my|our account the|next|within|same|on
    raised|raises|raise ~ million|goal|funds|money|euros|dollars|children|charity
    open|opens a second|new
    one piece
    nothing i|we|i'd would|can ?ever change|fault|add
    hits|hit the spot
    hit with
    gets|got|get the job done
    be back|returning ?soon|again|for
    will|would|definitely|i'll|we'll ?definitely|certainly|surely|be ?be|go|come back
    definitely|certainly go|return|come|back
    get|go|buy|try|check one|it|this|some|out now|today|soon|you
    how did|do i|we ever
    was|were|am|is hooked
    seated|greeted|served|answered|replied|helped right|straight|immediately|promptly|quickly ?away
    huge|generous|big portion|portions
    half the price
    for the price
    so small and
    does|do everything
    never|rarely a wait|problem|issue|doubt
    never run|runs|running out
    well made|built|thought|worn|deserved|spent|behaved|designed|written|crafted|played|lit|kept|maintained|organised|organized|cooked|acted
    don't|doesn't|didn't even realize|notice|hurt
    stays|stay|stayed put|fresh|warm|cool|sharp|on|clean
    battery lasts ?me ?for ?very long|all|two|three|days|weeks ?day|days
    battery life is ?really|so|very ?a great|long|amazing|good|excellent|fantastic|impressive
    lasts|lasted a|all|for|two|three|all long|ages|day|years|days|weeks
    every|each bite|minute|second|moment|page|dish|song
    no regrets
    can't stop listening|watching|eating|playing|laughing|smiling|reading
    looks|look|feels|feel|tastes|sounds|smells ?so|really|even|just|much better|great|good|amazing|lovely
    much|way|far|lot|even|so|noticeably|significantly better|faster|quieter|easier|lighter|smaller|cheaper|nicer|smoother|cleaner|brighter|clearer|stronger
    better|faster|nicer|easier|cheaper|quieter|tastier than
    the|my|our new favorite|favourite
    new favorite|favourite|spot
    you|everyone ?really|just ?all should|must|need|gotta|have ?to try|buy|get|see|read|visit|watch|go
    to good use
    rave about
    still works|working|going|fresh|strong|great|looks
    like a dream|charm|pro|champ|king|queen|treat|glove|rock
    step ?up in the right
    highlight of
    proud of
    up and running
    without any|a problems|problem|issues|issue|trouble|delay|fuss
    good|great|brilliant|lovely|nice|fun|awesome|amazing time|day|night|evening|weekend|trip
    can't|couldn't|not|nothing|never|hardly|little|hard to|find|anything ?to ?find ?anything complain|fault|criticise|criticize|dislike
    can't|couldn't go wrong
    can't|couldn't|cannot live|manage without
    can't|couldn't|hard|tough to|be ?be beat|beaten|topped
    can't wait
    nothing ?bad|but to complain|fault|criticise|praise|good|great
    nothing|not not to like
    what's|what not to like|love
    not|isn't|wasn't|aren't|weren't|ain't|never|nothing ?at ?all ?that|too|half|so|a ?bad bad|terrible|awful|shabby
    not|isn't|wasn't as bad as
    not|isn't|wasn't|never|no nearly|at|half ?all ?as bad|hard|difficult|scary|expensive|slow
    no|zero|without|never|not|fewer ?any|a|had|single|once|have ?a|any ?single|real|major complaint*|issues|problem*|regret*|trouble|bugs|crash*|nonsense|hassle|fuss|glitches|hitch*|drama|worries|worry|side ?effects
    no questions asked
    won't|not|never|don't|didn't regret*
    won't|not|never|doesn't|didn't|hasn't|haven't|don't disappoint*|fails
    never|not|hasn't|haven't|doesn't|didn't|won't ?once let|lets|failed ?me|us|you down
    could|might have|be ?been worse
    could do|use with a|some more
    won me|us|him|her over
    works|working|worked|runs|running|ran|work like|as|perfectly|great|flawlessly|smoothly|beautifully|every|again|well|fine ?a ?charm|advertised|expected|promised|described|new|time
    went|go|goes|gone|ran|going without a hitch|problem
    goes|go|going|went a long|well|smoothly way
    keep|keeps|keeping|kept up the good|great work
    well|nicely|great|good done|job|work|stuff|news
    two|three|both|big thumbs up
    thumbs up
    on|ahead|right of|on ?of time|schedule
    earlier|early|faster|sooner|better|easier|quicker|nicer|tastier|quieter|bigger|more than expected|promised|planned|advertised|feared|thought|hoped|before|my|ever
    landed|arrived|finished|delivered|came early
    landed|arrived|finished|delivered|came ?right|exactly|just on time|schedule
    within minutes|hours|seconds
    quick|fast|easy to reply|answer|respond|set|use|install|assemble|clean|setup
    will|would|i'll|we'll|i'd|definitely|gladly ?definitely|certainly|gladly|surely|happily|be|be ?be|come|buy|order|book ?coming back|again|return|reorder|recommend
    look* forward to
    looking forward
    hope to|we ?to see|do|work|visit ~ again|soon
    reason enough
    worth it|the|a|your|watching|reading|seeing|visiting|trying|waiting|buying ?wait|price|money|trip|visit|effort|detour
    well|absolutely|totally|definitely|so worth
    does|do|did exactly|just what|as
    won't|never be disappointed|sorry
    never look* back
    hasn't|haven't|can't|couldn't|didn't put|stop|stopped ~ down|laughing|smiling|reading|listening|dancing
    didn't|nobody|never want|wanted ~ leave|end
    feel|feels|feeling|felt like myself|home|new
    pain|fever|problem|issue|bug|error|noise|smell|infection|mold is|are|was|has|have|finally|all ?now|been|finally|all|completely gone|solved|fixed|resolved|over|history|sorted
    problem|issue solved|fixed|sorted|resolved
    sorted out
    got the job|contract|deal|part|offer
    on repeat|point
    is|are|was|straight|absolutely|totally fire|lit|dope|goated
    actually|really|straight|absolutely|totally slaps|rocks|rules|slapped
    nails|nailed|nailing it
    home|back and|home safe*
    saves|saved|save|saving me|us|you|my|our|a ?a|so|my|our ?lot|ton|much|tons|bacon|day|life|hours|time|money|space ?of ?time|hours
    so|very|really|how kind|cool|fresh|sweet|smart|cute|warm|fit|fast|quick|light|soft|tender|clean|quiet
    on the right track
    good|great|nice|solid|decent|fair|unbeatable|amazing value|price|deal
    value for money
    five|free ?of charge
    at|for no ?extra|additional charge|cost
    i|we|really|do|just|absolutely|they|also love|like|loved|liked it|this|how|that|them|the|my|our|your|her|his
    as good|nice|great as
    makes|make|made|making everyone|everybody|me|us|you|people|them|kids smile|laugh|happy|welcome|comfortable|proud
    put* a smile
    of the year|decade|century
    thank|thanks god|goodness|you
    big|huge|great|massive|real|clear improvement|fan|difference|plus|step|upgrade
    up to date|speed
    state of the art
    back on track
    peace of mind
    beyond|more than happy|pleased|satisfied|glad|grateful|fair
    couldn't|can't|not ?be less than`,
  ],
  [
    1,
    `not|isn't|wasn't|doesn't ?too|so|all expensive|heavy|loud|slow|long|difficult|complicated|hard
    not|isn't|wasn't|aren't|weren't|never too big|small|hot|cold|short|salty|sweet|spicy|dark|bright|late|tight|loose|thin|thick|dry|weak|soft|noisy|crowded|far
    at ease
    kept ~ dry|warm|cool|fresh|safe
    held|holds|holding up|together|well
    going|still strong
    ever since
    a must
    a no-brainer`,
  ],
];
