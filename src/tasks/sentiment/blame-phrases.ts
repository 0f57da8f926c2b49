// The phrases of classify that express blame.
import type { PhraseList } from "./praise-phrases.ts";

/** Phrases that express blame, a complaint or a loss. {@link PhraseList} explains the notation. */
export const BLAME: PhraseList = [
  [
    -3,
    `would|will|do|does|can|could not|never ?ever|even|in|honestly|really ?good ?conscience ?ever recommend*
    wouldn't|won't|don't|doesn't|can't|cannot|couldn't ?ever|even|in|honestly|really ?good ?conscience ?ever recommend*
    won't|wouldn't|never|don't ?ever|probably|likely ?be coming|going|come|go|be back
    i'll|we'll|i'd|we'd|will|would never ?ever ?be coming|going|come|go|be back
    won't|wouldn't|never ?ever|probably|likely ?be buy|order|shop|return|use|book|stay|eat|visit|buying|ordering|shopping|returning|using|booking ?anything|here|there|it|this|them|their|another|from ?from|with ?them again|anymore
    won't|wouldn't ?ever|probably|likely ?be buy|order|shop|book|eat|buying|ordering|shopping|booking|return|returning ?anything|another|one from|here|there|this|it|them
    won't be returning|shopping
    won't|wouldn't|don't|can't|couldn't|cannot|not|never ?be ?honestly|really|ever recommend*
    not one|a star
    2|two thumbs down
    thumbs down
    give ?it|them|this ?only|just no|one|zero|two|1|0|2|half stars|star
    no stars
    below average|par|expectations|standard
    not my idea of
    the chills|creeps
    out of luck
    not|isn't|wasn't|never|hardly|barely|aren't ?even|really worth ?it|the|a|my|your|buying|watching|reading ?price|money|time|trouble|wait|effort
    waste|wasted|wasting of|my|your|our|time|money|an|two|three|hours ?a|my|your|our|good|perfectly
    complete|total|utter|what|such ?a|and waste|mess|joke|disaster|rubbish|failure|disappointment|letdown|shame|nightmare|scam|pity
    stay|steer ?well|far away|clear
    ^run ?far away
    ^avoid this|these|them|it
    avoid like the|plague
    avoid at|if ?at you|all ?can|costs|possible
    at all costs
    never|don't|won't|nor|wouldn't ?be|ever go|buy|order|shop|use|come|fly|stay|book|eat|visit|return|ordering|buying|coming|flying|using ?here|with|there|from|this|you|them|it|to ?here|them|this|you again|back|anyone
    not ?ever going|coming|ordering|buying|flying|using|staying|returning|shopping ?here|with|there|from|this|you|them|it|to ?here|them|this|you again|back
    i|we|and|but would|will never ?ever return|buy|order|book|visit
    won't|wouldn't|never ?ever ?be use|using|buy|buying|order|ordering|book|booking|visit|visiting ~ again
    nor will|would i|we ?ever be|come|go|return|buy|order
    ^not again
    this|that was|is the|my|our ?very last time
    don't want ?to ?ever come|go|return|be back|again
    never again
    be my|our ?very last|final time|order|purchase|visit|stay|flight|meal
    is my|our ?very last order|purchase|visit|stay
    was my|our ?very last time|visit|stay
    last time i|we ever|order|buy|shop|use|book|eat|stay|fly
    thanks|thank for ?you wasting|ruining|nothing|losing|ignoring|breaking|charging|cancelling|canceling|lying
    rip off
    complete|total|real|bad|sick|big joke
    is|are|was|were|what|such ?just ?such a ?complete|total|real|bad|sick|big joke
    i'll never get back
    want|demand|need|give ~ money back
    zero|0|one|1|minus|negative ?out star|stars
    threw ~ bin|trash|garbage|away
    goes|went|straight|belongs ?straight|right in|into|to ?the bin|trash|garbage
    money thrown away
    throwing|throw ?your|my|our money away
    sick and|of tired|this|these|it|being
    piece of crap|junk|garbage|trash|shit|rubbish
    i've|have had enough
    fed up
    taking|take my|our business|custom elsewhere
    a slap in the face
    drives|driving|drove me|us crazy|mad|insane|nuts
    i|we|you can't|cannot stand ?it|this|the
    lost|lose|losing their|his|her|our|my jobs|job|lives|life|home|homes|customers|faith|trust|patience
    were|was|been|are ?brutally killed|murdered|injured|wounded|arrested|robbed|fired|attacked`,
  ],
  [
    -2,
    `inflation|unemployment|joblessness|crime|poverty|debt|deficit|deaths|accidents|infections|emissions|losses ?has|have ?sharply rose|rise|rises|doubled|tripled|risen|jumped|climbed|surged|soared|grew|up
    profit|profits|sales|revenue|revenues|earnings|exports|wages|shares|stocks ?has|have ?sharply fell|fall|falls|fallen|dropped|declined|decreased|plunged|shrank|down
    cut|cuts|lowered|slashed ?its|the|their forecast|outlook|guidance|jobs
    profit warning|warnings
    nothing i|we ?really|would like|liked|love|enjoy|enjoyed|recommend
    better|nicer|faster|cheaper|easier|tastier|cleaner|quieter|stronger than this|these|it|yours
    old|previous|other|original ~ was|were|is|are ?so|much|far|way|even|lot better|nicer|faster|easier|cheaper|quieter|tastier
    better|nicer|cheaper options|alternatives|choices|places ?out ?for ?there|the ?price|money
    used to be ?so|such|very|really|a|my good|great|better|best|nice|fun|favourite|favorite|excellent|reliable
    used to love|like|enjoy|recommend
    poor|bad|terrible|awful|no|not|little ?good value ?for ?money
    food|meal|soup|pizza|coffee|tea|fries|chips|dinner|breakfast|lunch was|were|is|are|arrived|came|served ?already|stone|ice|completely cold
    prefer my|the ?much old|previous|other|original
    peeled|rubbed|wore|worn|washed|flaked|chipped|fallen off|away|out
    so narrow|small|tiny|loud|slow|thin|dark|cold|hot|noisy|heavy|complicated|weak|bad|boring that
    asked for ~ and|but got|received
    when it feels like it
    old one ~ better
    walked|left halfway
    walked out
    left before ?the|it|we|i end|dessert|interval|intermission|finished|ended|finishing
    imagine paying|waiting|spending
    ^who approved|allowed|signed this|that|it
    don't|can't see|understand|get why|how anyone|people|they
    don't know why|how anyone|people
    don't|can't understand why this
    behind|over schedule|budget
    never admit*|listen*|apologi*|learn*|clean*|deliver*|answer*
    tough|dry|hard|cold as leather|stone|ice|rubber|wood|bone
    ran|run|runs|running out of
    for the wrong|worse
    up all night
    too long
    how|why is this|that ?even acceptable|allowed|okay|ok|legal|fair|possible
    on my|our nerves
    file|filed|files for ?for bankruptcy
    lost|lose|loses|losing my|our|his|her|their wallet|keys|phone|passport|mother|father|son|daughter|dog|cat
    behind my|our back
    not|hardly ?the what|quality ?was ?i|we shown|pictured|advertised|described|promised|paid|ordered|expected
    just what i|we|they needed|wanted another
    breaks|broke|rips|tears|scratches|stains easily
    sharp edges
    next|beside|near|opposite|like|faced|facing|faces|overlooks|overlooking ?to|door|of ?a|the building|construction site
    heard nothing
    nothing ?has happened|changed|worked|helped
    can't|couldn't|unable|impossible ?to ?even log|sign|get|install|connect|reach|open|access|cancel|update|find ?in|into|out|through ?any
    not able ?to ?even log|sign|get|install|connect|reach|open|access|cancel|update|find ?in|into|out|through ?any
    times ?and heard|nobody|nothing|still
    which|that never arrived|came|worked|happened
    no instructions|manual|receipt|support|updates|staff|towels|parking|lift|seats
    kept ?us|me awake|waiting
    in the rain|cold|dark
    prices|price|rent|fees have|has|had|keep|keeps doubled|tripled|risen|rising|climbing|exploded
    if you enjoy|like|love waiting|queues|queuing|paying|losing
    what genius
    ^who thought|decided this|that|it
    waited|wait|waiting|waits and waited|waiting
    waited|wait|waiting|spent ?for|over|more|an|on|in|about|us|me|almost|nearly ~ hour|hours|forever|ages|weeks|months|long
    took|takes|taking ?for|over|me|us|you ?an|so|way|too|really ages|forever|long
    took ?me|us|them over|more|almost|nearly|another ~ hour|hours|weeks|months
    took them ~ hour|hours|weeks|months
    in vain
    no excuse
    nothing ?really special|good
    rarely|not|never|isn't a good sign|idea|experience
    the only downside|complaint|problem|negative|con
    no real improvement
    blew|blows|blown up|out
    low|poor|bad|terrible|cheap|inferior|awful quality
    cut|cuts|cutting corners
    keeps|kept|constantly|sound|signal|audio|call|calls|line|connection|picture|internet ?keeps cut|cuts|cutting out|off
    was|were|got|been|is|are cut off|short
    hard|difficult|impossible|tough|tricky|annoying|tedious ?to to hear|use|find|read|reach|open|understand|hold|clean|install|set|get|believe|follow|see|navigate|watch|sit
    had to constantly|restart|reset|reboot|resend|re|chase|wait
    i|we have to constantly|restart|reset|reboot|resend|re|chase|wait
    have|has to constantly
    have|has|had|need|needs|needed to|be ?be replaced|repaired|fixed|restarted|reset
    pull|pulled|takes|took forever|ages
    doesn't|didn't|don't|not do the job
    dropped|drops|drop calls|call|connection|connections
    look|looks|feel|feels|sound|sounds|smell|smells ?very|so|really|just|and cheap|bad|awful|weird|fake|old|dated|wrong|off|horrible
    as far away ?as ?possible
    wasn't|isn't|weren't|aren't|not ?so|that|really|very|too|all|at ?very|all good|great|bad|fresh|fun|nice|clean|friendly|impressed|pleasant|best|tasty|easy|comfortable|sharp|clear|user|smooth|helpful
    should've|should have been|known|listened|arrived|told|checked
    not|isn't|wasn't user|very|all|so|that|really friendly|good|great
    regret buying|ordering|coming|going|this
    feel|felt|feeling sick|ripped|cheated|scammed|robbed|sorry|bad|ill|awful|betrayed|ignored|let
    sick of
    worst enemy
    don't|doesn't|didn't|can't see the point
    can't|couldn't|barely|hardly hear|see|taste|smell anything|a|anybody
    nobody|none|noone ~ could|would|can help|answer|explain|care
    nobody|none|noone told|tells|informed|warned|explained|explains
    doesn't|didn't do what|anything
    can't|couldn't even
    can't|couldn't|didn't sleep
    can't with this|these|that|people
    still not|haven't|hasn't ?yet received|arrived|got|heard|come
    wouldn't|not wish ~ on anyone|anybody
    doesn't|won't|wouldn't|didn't|don't ?even|ever|properly ?to print|close|lock|scan|save|hold|stick|flush|move|play
    never|haven't|hasn't ?even ?yet received|receive|arrived|got|heard|came|turned|showed
    don't|doesn't|didn't|wouldn't ?really|even|seem ?to care|like|enjoy
    had to send|take|bring it|them|this back
    asks|asked|asking ~ every single time|day|morning|night|week
    went|goes|going dead|offline|blank
    tired of
    over ?my|the cooked|priced|rated|hyped|head
    going|gone|goes|went downhill
    cold|stale|raw|burnt|soggy|dry|greasy|undercooked|rude|slow|dirty|broken|late and
    no ?more|longer thanks|thank|longer
    left|leaves ~ crying|disappointed|hungry|unanswered|stranded|waiting|disgusted
    not|isn't|wasn't|don't|didn't|aren't|never|nothing|no|hardly ?exactly|quite|really|nearly|even|the|a|particularly|very|even ?the|as ?as good|great|happy|impressed|helpful|friendly|satisfied|amused|enough|clean|comfortable|pleased|fun|funny|recommended|worth|special|fresh|reliable|easy|clear|fair|ok|okay|acceptable|cool|nice|compelling|interesting|right
    let|lets|letting|been ?me|us|you|him|her|them|everyone|customers|fans|people down
    fall|falls|fell|falling|came|comes|coming|fallen|broke|breaks ?right apart|off|flat|short|loose|undone
    stop|stops|stopped|quit|quits ?suddenly working|responding|replying|answering|charging|loading|functioning|turning|syncing
    doesn't|didn't|won't|never|isn't|can't|couldn't|wouldn't|barely|hardly|aren't ?even|always|seem|really|ever|properly ?to work*|respond*|arrive*|show*|reply|replied|answer*|help*|listen*|fit|fits|last|lasted|load*|open*|connect*|charge|charges|charged|start*|turn*|install*|sync*|explain*|apologi*|understand*|function*|happen*
    don't ?even|always|seem|really|ever|properly ?to work*|respond*|arrive|reply|answer|help|listen|fit|last|function
    not ?even|really|properly working|responding|arriving|helping|listening|loading|opening|connecting|charging|starting|syncing|functioning|arrived|responded|replied|answered|helped
    not|isn't|wasn't|doesn't|don't|didn't|aren't|weren't ~ like|as|what|match|resemble ~ described|pictured|advertised|expected|picture|promised|pictures|ordered|photo|photos
    nothing ?at|what ?all like the|what|it ?picture|description|photos
    no|not|without|zero ?a|any|an|get|got|getting|received|hear|heard ?a|any|an|single ?a answer*|reply|replies|response*|apology|explanation|refund*|help|support|sign|idea|clue|hope|warning|respect|communication|way|reason|signal|point|luck|hot|internet|wifi|substance|personality|depth|plot|chemistry|fun|sense|thanks ?water|from|seems|cares|answers
    nobody|none|noone ?of ?them ?seems|seemed|ever|to|even ?to care*|answer*|help*|call*|repl*|came|come|listen*|show*|respond*|bother*|pick*|want*
    nobody|none|noone ?seems|seemed|to ?to know*|knew anything
    no|not one|a ?of soul|them ?seems|ever|even ?to care*|answer*|help*|call*|repl*|came|come|listen*|show*|know*|knew|respond*|bother*|pick*
    not ?even|seem|seems|to ?to care*|listen*|bother*
    let alone
    still|been|keep|kept|we're|i'm ?am|are|is|been|i'm ?on|have ?no wait*|waiting|haven't|hasn't|broken|missing|nothing|pending|stuck
    on hold
    more|over ?than ~ hours|hour|weeks|months late
    hours|hour|days|minutes|weeks|months|again late|delayed|waiting|wait|delay
    keeps|kept|keep|constantly|continually|randomly|repeatedly crash*|freez*|fail*|break*|los*|stop*|disconnect*|timing|drop*|reset*|shut*|asking|saying|happening|bugging|lagging|ringing
    always crashes|crashing|crashed|freezes|freezing|fails|breaks|breaking|stops|disconnects|drops|resets|asking|saying|happening|lagging
    double|twice|over charged|billed
    charged|billed|charge ?me|us ~ twice|double|cancelled|canceled|never|again|extra|wrong
    is|was|are|were|site|app|server|website|service|keeps ?still|now|completely|all|going ?going down|offline|dead|broken ?again
    too expensive|small|loud|slow|hot|cold|long|short|salty|heavy|complicated|sweet|big|dark|late|tight|thin|much|many|little|few|thick|dry|weak|hard|soft|low|high|noisy|predictable|bright|far|difficult|crowded|often
    way|far|much|bit|little|just too
    had|seen|known|tasted|eaten|read ~ better
    expected|deserve*|expect|hoped ?for|it|to ?to ?be ?much better|more|improve*|improvement
    wanted|thought|needs|need|needed|could|should|must ?be|do|get|have|for|it|was|so ?be|done|been|was|to ?be ?much better|improve*|improvement
    could|should ?have be|been|do|done ?so ?much more
    could|should|would ?have ?been|be|done ?so|a|even ?much|lot|bit better|great|good|nice|perfect|excellent|decent|fun|easier|fantastic
    could|should be better|improved|faster|cheaper|nicer
    leave*|left a|much|something|lot ?lot to be|to desired|be ?desired
    nothing|not|little|hardly to|much|special|new|anything ?special|to ?to write home|about ?about
    you get what you pay
    don't|never|wouldn't waste|bother|trust
    wouldn't buy|spend|believe|expect
    ^don't|never buy|fall|spend|believe|expect|order
    don't buy|order it|this|these|from|anything|here
    please don't buy|waste|bother|order
    save yourself|your the|money|trouble|hassle|time
    spend your|my|our money elsewhere|somewhere
    look* elsewhere
    look* like ?a ?cheap trash|garbage|toy|rubbish|junk
    taste*|smell*|feel*|look*|sound*|reek* ?like|of ?a cardboard|plastic|rubber|soap|garbage|trash|chalk|metal|feet|glue|dust|smoke|mould|mold|chemicals|burnt|cheap|fish|gasoline|damp|rotten|dog|sewage|stale
    parts|pieces|screws|pages|half|items|features|luggage|bag|bags|order|package|parcel ?of|are|is|was|were|still|have|has|the|never ?the ?been|parts|features ?are|were|is missing|gone|lost|broken|damaged|deleted|stolen|cancelled
    parts|pieces|screws|items|luggage|bag|bags|order|package|parcel|delivery ?has|have|had|was|still never|not|hasn't|haven't ?yet|been|even|actually arrived|delivered|come|came
    out of order|stock|control|touch|date|hand|sync|business
    yeah right
    oh|well|ah great|wonderful|fantastic|brilliant|lovely|nice|awesome|joy|perfect|typical
    why|what|how ~ earth|hell|heck|fuck
    why ?do|does|is|are|would|did ?they|you|it|this|i|we even
    what|where|who|why|how the|on|in hell|heck|fuck|earth|world
    gave|give|given|giving up
    returned|returning|sent|sending|took ?it|them|this|mine|the ?straight|right back|immediately
    i'm|we're|am|are|be sending|returning|taking it|them|this|mine ?straight|right|all back
    going to send|return|take it|them|this|mine ?straight|right|all back
    would have to return
    wanted|trying|tried|wants ?so ?hard to love|like|enjoy|believe
    tries|tried|trying|tried|try ?so|too|way hard to be
    was|were|is|are supposed to
    instead of
    rather than
    worse than ?i expected
    less than stellar|ideal|impressed|impressive|perfect|great|happy|helpful
    no|any|not longer|more work*|available|support*|trust|use
    hung up
    hang up on
    get|got|getting|gets|becomes|became old|worse|stuck|boring|sick|lost|cold|repetitive|hot
    why ~ so|such|this hard|difficult
    how hard|difficult can|could
    how is|was|are ?this|that|it ?even possible ?that
    at best
    go|goes|going|went wrong|bad|nowhere|downhill|under
    not|isn't|aren't|wasn't|weren't|doesn't|below ?really|quite|come up to ~ standard|standards|scratch
    not|isn't|doesn't up|live to|up
    no hot water
    without power|water|electricity|heating|internet|notice|warning|asking|permission|explanation
    against my|our|their will
    not|never|hardly|barely|nowhere near ?enough
    mess|screw|screwed|messed|messes|messing ?me|it|this|everything up|around
    drain* ~ battery|phone
    full|lots|loads|ton|tons|plenty|riddled|packed of|with ads|bugs|errors|lies|holes|cliches|typos|mistakes|spam|hate
    third|fourth|fifth|5th|4th|3rd replacement|attempt|ticket
    second|2nd replacement
    have|had|having|make|made to|me|us ?me|us beg|fight|chase|resort|queue
    had|having|make|made|making to|me|us ?me|us wait
    made|make|makes|making me|us call|pay|ask|return|buy
    have|had|having to call|pay|ask|return|buy ~ again|twice|extra|another|times|myself|ourselves
    had to return it|them|this
    killing|kills|kill|killed me|off|us
    breaks|broke|breaking ?my heart
    my|our|the back|neck|head|throat|stomach|feet|tooth|teeth ?is|are|still hurt*|aches|sore|killing
    cancelled|canceled|cancelling|deleted|deleting|closed|closing|unsubscribed ?from my|our account|subscription|membership|order|flight|flights
    flight|flights|train|bus|order|appointment|trip|concert|show|game ?has|have|is|was|got ?been|was|just|again cancel*|delayed|late|postponed
    miss|missed|missing ?my|our|the|a|his|her connection|flight|train|bus|deadline|connecting|wedding|opportunity
    lost|lose|losing|loses my|our|all|data|your ?my|our bag|bags|luggage|baggage|data|work|order|files|photos|money|connection|suitcase|game|match`,
  ],
  [
    -1,
    `not|isn't|doesn't|don't|didn't ?really|look|feel|seem ?like|as|so ?a good|great|much|well
    too good to be true
    for god's|gods|heaven's sake
    not|isn't|wasn't|aren't ?really for me|us
    asked|called|tried|wrote|emailed|phoned|requested|complained|restarted|reinstalled|contacted ~ three|four|five|six|several|many|multiple|countless times
    after|sent|wrote|made three|four|five|six|several|many|multiple|countless calls|emails
    taken|waited three|four|five|six|several|many weeks|months|days|hours
    nothing new|happens|happened|works|helped|changed|special
    sorry to|for|but
    for no reason
    raise|raised|doubled|tripled|hiked|hike the|their|its|my ?the price|prices|fees|fee|rent|taxes`,
  ],
];
