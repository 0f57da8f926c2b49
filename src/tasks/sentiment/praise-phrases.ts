// The phrases of classify that express praise, and the notation of all phrases.

/**
 * Phrases with their valence, which is not the sum of the valences of their words. A phrase is one line of words: `a|b` matches
 * either word, `a*` matches a word that begins with `a`, `?a` is optional, `~` matches up to four words of any kind, and
 * a line that begins with `^` matches only where a clause begins, so that no subject stands before it. The longest match counts.
 */
export type PhraseList = readonly (readonly [valence: number, lines: string])[];

/** Phrases that praise. */
export const PRAISE: PhraseList = [
  [
    3,
    `made my|our|his|her evening|night|trip|morning|holiday
    exactly|just what i|we wanted|needed
    exactly|just what i|we was|were looking|hoping|after
    not a|one|single bit|negative|flaw disappointed
    never tasted|eaten|felt|met anything|a as|so good
    absolute|a|an|the must visit|try|have|see|read
    all i|we|you could|can|ever ?ever want|need|wanted|hoped
    all|everything i|we|you could ?ever ask for
    everything i|we|you could|can|ever ?ever want|need|wanted|hoped|asked
    best ?of ?the ever|yet
    can't|couldn't|could say|speak|rave|recommend|praise|thank|compliment|express ~ enough
    can't|couldn't get enough of
    can't|couldn't ~ be|been|ask|wish|get|do ?for ?any better|happier|easier|nicer|smoother|prouder|kinder|friendlier
    can't|couldn't ?really|have ?have ask|wish|hope|asked|wished|hoped for ?anything|a more|better|kinder|nicer|finer|easier
    couldn't have asked|wished|hoped for
    don't|doesn't|didn't think|believe ~ can|could|will|would be|get ?any better|happier|easier|nicer|smoother
    doesn't|don't|can't|couldn't|won't get|be ?any ?much better than this|these|it|that
    took|takes my|our|your breath away
    can't|couldn't recommend * more|enough|highly
    never|rarely|hardly|not ?been|had|felt|seen|eaten|tasted|met|used|owned|have ?a|any|anything|something happier|better|nicer|easier|smoother|kinder
    nothing|nobody|none better|beats|compares
    there's|is nothing ?quite like it|a|coming
    above and beyond
    second to none
    one of the|my|our best|greatest|nicest|finest
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
    how i|we|anyone could ?ever live|manage|cope without
    go|goes|went out of their|his|her|your way
    without|not a single complaint|hitch|problem|flaw|fault|issue|glitch
    what more could|can i|you|we|one|anyone ?ever ask|want|wish|need
    enjoyed|loved|enjoy|love|adored|savoured every|each ?single minute|second|moment|page|dish|song
    laugh* out loud
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
    owe you one|big|everything
    saved my|our|the presentation|project|life|day|marriage
    on the first try
    works|worked on the first try
    days|hours|weeks|minutes|day|week early
    loved|hooked|fine|perfectly|smoothly|great ?it ever since
    crystal clear
    how|what did i|we ever ~ without
    has|have worked|run ever since
    slaps hard|so
    update|song|album|track|beat|game|show|this|it slaps
    turned ~ into a|an
    why|how did|didn't nobody|anyone|i ~ sooner|earlier
    keep|keeps|kept ?on asking ?me|us where|how
    keep|keeps|kept ?on telling me|us how
    would|will|i'd|i'll|we'd|we'll|could never go back to my|our|a|an|using
    wouldn't|won't|couldn't|can't ?ever go back to my|our|a|an|using
    can't|won't|couldn't find|get|buy|see|have ?a|any fresher|better|nicer|finer|cheaper|friendlier
    nothing i|we don't|didn't like|love|enjoy
    nothing to|i|we dislike|disliked
    nobody|none ~ dislike|dislikes|disliked
    prefer this|these|it|them
    guys|you rock
    kept|keeps|keep his|her|their|its ?the promise|promises|word
    inflation|unemployment|joblessness|crime|poverty|debt|deficit|deaths|accidents|infections|emissions|losses ?has|have ?sharply fell|fall|falls|fallen|dropped|declined|decreased|eased|shrank|halved|down
    works|worked|work perfectly|fine|well|great ?even without|offline
    works|worked|work even without|offline
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
    i|we|i've|we've ?have worn|wear|used|use|played|play|read|eaten|eat these|it|this|them|here ?almost every day|week
    stayed for the|an encore|extra|another
    in my|our account the next|same day|morning|evening
    in my|our account within hours|minutes|a
    raised|raises|raise ~ million|goal|funds|money|euros|dollars|children|charity
    opens a second|new school|library|hospital|park|playground|centre|center|museum|factory|plant|shop|store
    in one piece
    nothing i|we|i'd would|can ?ever change|fault|add
    hits|hit the spot
    a|big|huge|real|massive hit with
    gets|got|get the job done
    i'll|we'll ?definitely|certainly|surely be back|returning
    i|we will|would ?definitely|certainly|surely be back|returning
    ^will|would be back|returning
    be back for more
    i|we will|would ?definitely|certainly|surely|gladly ?be come|coming back
    i'll|we'll|i'd|we'd ?definitely|certainly|surely|gladly ?be come|coming back
    ^will|would ?definitely|certainly|surely|gladly ?be come|coming back
    i'd|we'd|would ?definitely|certainly|surely|gladly go back
    definitely|certainly|surely|gladly|happily ?be be|go|come|going|coming back
    definitely|certainly return|returning
    ^go get|buy|try one|it|this|some|yours
    was|were|am|is hooked
    seated|greeted|served|answered|replied|helped right|straight|immediately|promptly|quickly ?away
    huge|generous|big portion|portions
    half the price
    good|great|nice|decent|fine|excellent|ok|okay|amazing|solid|quality for the price
    so small and
    does|do|did everything ?that ?and i|we|you|it|more ~ need|needed|want|wanted|ask|asked|promises|promised|claims|claimed|says|said|should
    never|rarely a wait|problem|issue|doubt
    never run|runs|running out
    well made|built|thought|worn|deserved|spent|behaved|designed|written|crafted|played|lit|kept|maintained|organised|organized|cooked|acted
    don't|doesn't|didn't even realize|notice|hurt
    stays|stayed put
    stays|stay|stayed fresh|warm|cool|sharp|clean
    battery lasts ?me ?for ?very long|all|two|three|days|weeks ?day|days
    battery life is ?really|so|very ?a great|long|amazing|good|excellent|fantastic|impressive
    lasts|lasted ?me|for all|ages|years|forever|long|days|weeks
    lasts|lasted ?me ?for a|so|very long
    every|each bite
    no regrets
    can't stop listening|watching|eating|playing|laughing|smiling|reading
    looks|look|feels|feel|tastes|sounds|smells ?so|really|even|just|much better|great|good|amazing|lovely
    much|way|far|lot|even|so|noticeably|significantly better|faster|quieter|easier|lighter|smaller|cheaper|nicer|smoother|cleaner|brighter|clearer|stronger
    better|faster|nicer|easier|cheaper|quieter|tastier than
    the|my|our new favorite|favourite
    new favorite|favourite|spot
    you|everyone|everybody really|absolutely|definitely|simply should|must|need|gotta|have ?to try|buy|get|see|read|visit|watch|taste|hear|own it|this|them|one
    you just|all should|must|gotta|have ?to try|see|read|taste|hear|watch it|this|them
    everyone|everybody should try|see|read|visit|watch|taste|hear|own it|this|them|one
    you have|gotta|must ?to try it|them
    never had|have|has to wait|repair|replace|complain|ask|worry|chase|repeat
    never|didn't expected|expect to like|love|enjoy
    you ?simply|really|just must|gotta try|visit|taste|see it|this|their|his|her
    to good use
    rave about
    still works|fresh|strong|great
    still working|going|running|looks|look fine|well|great|strong|perfectly|good
    still looks|works|runs like|as new|good
    like a dream|charm|pro|champ|king|queen|treat|glove|rock
    step ?up in the right
    highlight of
    proud of
    up and running
    without any|a problems|problem|issues|issue|trouble|delay|fuss
    great|brilliant|lovely|nice|fun|awesome|amazing time|day|night|evening|weekend|trip
    good time|day|weekend|trip
    can't|couldn't|not|nothing|never|hardly|little|hard to|find|anything ?to ?find ?anything|any|a|much ?real|single complain|fault|criticise|criticize|dislike|flaw
    can't|couldn't go wrong
    can't|couldn't|cannot live|manage without
    can't|couldn't|hard|tough to|be ?be beat|beaten|topped
    can't wait ?to|for|until|till
    nothing ?bad|but to complain|fault|criticise|praise|good|great
    nothing|not not to like
    what's|what not to like|love
    not|isn't|wasn't|aren't|weren't|ain't|never|nothing ?at ?all ?that|too|half|so|a ?bad bad|terrible|awful|shabby
    not|isn't|wasn't as bad as
    not|isn't|wasn't|never|no nearly|at|half ?all ?as bad|hard|difficult|scary|expensive|slow
    no|zero|without|never|not|fewer ?any|a|had|single|once|have|see|find ?a|any ?single|real|major complaint*|issue|issues|problem*|regret*|trouble|bugs|crash*|nonsense|hassle|fuss|glitches|hitch*|drama|worries|worry|side ?effects
    no questions asked
    won't|not|never|don't|didn't regret*
    won't|not|never|doesn't|didn't|hasn't|haven't|don't disappoint*|fails
    never|not|hasn't|haven't|doesn't|didn't|won't ?once let|lets|failed ?me|us|you down
    could|might have|be ?been worse
    won me|us|him|her over
    works|working|worked|runs|running|ran|work perfectly|great|flawlessly|smoothly|beautifully|well|fine
    works|working|worked|runs|running|ran|work like|as ?a charm|advertised|expected|promised|described|intended|new|dream|clockwork
    works|worked|working|work every time
    works again
    is|are|it's working|running again
    went|go|goes|gone|ran|going without a hitch|problem
    goes|go|going|went a long|well|smoothly way
    keep|keeps|keeping|kept up the good|great work
    well|nicely|great|good done|job|work|stuff|news
    two|three|both|big thumbs up
    thumbs up
    ahead of time|schedule
    right on time|schedule
    earlier|early|faster|sooner|better|easier|quicker|nicer|tastier|quieter than expected|promised|planned|advertised|feared|thought|hoped|before|my|ever
    landed|arrived|finished|delivered|came early
    landed|arrived|finished|delivered|came ?right|exactly|just on time|schedule
    within minutes|hours|seconds
    quick|fast|easy to reply|answer|respond|set|use|install|assemble|clean|setup
    i|we will|would ?definitely|certainly|gladly|surely|happily ?be come|buy|order|book|use|stay|shop|visit|coming|buying|ordering|booking|using ?it|this|here|there|from ?them again
    i'll|we'll|i'd|we'd|definitely|gladly|certainly|happily ?definitely|certainly|gladly|surely|happily ?be come|buy|order|book|use|stay|shop|visit|coming|buying|ordering|booking|using ?it|this|here|there|from ?them again
    ^will|would ?definitely|certainly|gladly|surely|happily ?be come|buy|order|book|use|stay|shop|visit|coming|buying|ordering|booking|using ?it|this|here|there|from ?them again
    would buy|book|order ?it|this|them ?from again
    i|we will|would ?definitely|certainly|gladly|surely|happily return|reorder again|soon|here
    definitely|certainly|gladly|surely|happily reorder|recommend
    look* forward to
    looking forward
    hope to|we ?to see|do|work|visit ~ again|soon
    reason enough
    worth it|the|a|your|watching|reading|seeing|visiting|trying|waiting|buying ?wait|price|money|trip|visit|effort|detour
    well|absolutely|totally|definitely|so worth
    does|did exactly|just what
    they|it|to do exactly|just what
    does|did exactly as
    won't|never be disappointed|sorry
    never looked back
    can't|couldn't|didn't|don't find|see|have anything wrong|bad|negative
    never ?ever get|gets|got boring|old|bored|tired
    wouldn't|won't ?be go|going|buy|stay|shop anywhere|somewhere else
    can't|couldn't|hasn't|haven't put ~ down
    hasn't|haven't|can't|couldn't|didn't stop|stopped ~ laughing|smiling|reading|listening|dancing
    didn't|nobody|never want|wanted ~ leave|end
    feel|feels|feeling|felt like myself|home|new
    pain|fever|problem|issue|bug|error|noise|smell|infection|mold is|are|was|has|have|finally|all ?now|been|finally|all|completely gone|solved|fixed|resolved|over|history|sorted
    problem|issue solved|fixed|sorted|resolved
    sorted out
    got the job|contract|deal
    on repeat|point
    straight|absolutely|totally|pure fire|lit|dope|goated
    is|are|was dope|goated
    song|album|track|beat|mix|food|it|this is|was fire|lit
    this|that|these ~ is|are fire
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
    i|we|really|do|just|absolutely|they|also love|loved it|this|how|that|them|the|my|our|your|her|his
    i|we|really|absolutely|they like|liked it|this|how|that|them|the|my|our|your|her|his
    as good|nice|great as
    makes|make|made|making everyone|everybody|me|us|you|people|them|kids smile|laugh|happy|welcome|comfortable|proud
    put* a smile
    book|film|movie|album|song|game|player|car|team|show|purchase|buy|discovery|surprise|find of the year|decade|century
    thank|thanks god|goodness|you
    big|huge|great|massive|real|clear improvement|fan|difference|plus|step|upgrade
    state of the art
    back on track
    peace of mind
    beyond|more than happy|pleased|satisfied|glad|grateful|fair
    can't|couldn't|won't|not ?really complain|complaining
    won't|wouldn't|didn't hesitate ?for ?a ?second|moment to come|go|buy|book|order|return|stay|shop|use|recommend|visit
    never forget how|the|this|that|your|their ?kind*|wonderful|great|lovely|beautiful|amazing|perfect
    don't|didn't|doesn't hate`,
  ],
  [
    1,
    `not|isn't|wasn't|doesn't ?too|so|all expensive|heavy|loud|slow|long|difficult|complicated|hard
    not|isn't|wasn't|aren't|weren't|never too big|small|hot|cold|short|salty|sweet|spicy|dark|bright|late|tight|loose|thin|thick|dry|weak|soft|noisy|crowded|far
    at ease
    kept ~ dry|warm|cool|fresh|safe
    holds|held|holding up ?really|so|very well|great|nicely|fine|perfectly|beautifully
    holds together
    going|still strong
    ^a must
    a must for every|any|all|everyone|anyone
    absolute|total|definite|real must
    does|did the job
    a no-brainer`,
  ],
];
