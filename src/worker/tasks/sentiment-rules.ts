/** Rewrites what VADER misreads into a word it reads right: `to` is in its lexicon, or is `THING`, which is not. */
export type SentimentRule = { readonly name: string; readonly pattern: RegExp; readonly to: string };

// Words of VADER's lexicon with the strength wanted, and one that it does not know.
const GREAT = " excellent ";
const GOOD = " good ";
const BAD = " bad ";
const AWFUL = " terrible ";
const THING = " thing ";

// Patterns are anchored by a word and bounded in every repeat, so each is linear in the text.
const rule = (name: string, to: string, pattern: string): SentimentRule => ({
  name,
  to,
  pattern: new RegExp(String.raw`(?<![\w'])(?:${pattern})(?![\w'])`, "giu"),
});

/** Phrases whose words mislead, wherever they stand. The order matters: longer readings first. */
export const PHRASES: readonly SentimentRule[] = [
  // Negation that praises
  rule("not bad", GOOD, String.raw`(?:not|isn't|wasn't|aren't|ain't) (?:at all |that |too |half |so |a )?(?:bad|terrible|awful)(?: at all)?`),
  rule("cannot praise enough", GREAT, String.raw`(?:can't|cannot|can not|couldn't) (?:\w+ ){1,5}enough`),
  rule(
    "could not be better",
    GREAT,
    String.raw`(?:can't|cannot|couldn't|could not) (?:be|have been|ask for|get|wish for)(?: any)? (?:happier|better|more pleased|nicer|easier|more)`,
  ),
  rule(
    "cannot complain",
    GOOD,
    String.raw`(?:can't|cannot|couldn't) (?:complain|fault|go wrong|beat)|(?:no|zero|without) (?:complaints?|regrets|issues|problems|fuss|hassle|surprises|questions asked)`,
  ),
  rule(
    "never a problem",
    GOOD,
    String.raw`(?:never|haven't|have not|not|didn't) (?:once )?(?:had|have|given me|a)?(?: (?:a|any|one|single))? ?(?:problems?|issues?|trouble|regret(?:ted)?|disappoint(?:ed|s)?)`,
  ),
  rule("could be worse", GOOD, String.raw`(?:could|might) (?:be|have been) worse`),
  rule("nothing to fault", GOOD, String.raw`nothing (?:bad|negative|wrong|to complain|to fault|I would change|I'd change)(?: about| with| to say)?`),
  // Before the praise, which would take its end
  rule("not worth it", AWFUL, String.raw`(?:not|isn't|wasn't|aren't|hardly|never) (?:even )?worth(?: (?:it|the|a|your|my)(?: \w+)?)?`),
  // Praise without a word that VADER knows
  rule(
    "idiom of praise",
    GREAT,
    String.raw`above and beyond|game[- ]changer|second to none|hands down|worth (?:every|each) (?:penny|cent|euro|dollar)|(?:well )?worth (?:it|the (?:money|price|wait|trip))|must[- ]have|top[- ]notch|life ?saver|one of a kind|out of this world|never look(?:ed|ing)? back|did I ever (?:live|manage|cope) without|blew me away|knocks? it out of the park`,
  ),
  rule(
    "praise",
    GREAT,
    String.raw`flawless(?:ly)?|spotless|amazes|superb(?:ly)?|delicious|gorgeous|exceeded (?:my|our|all)(?: \w+)? expectations|laughed (?:out loud|from start to finish)`,
  ),
  rule(
    "reliable service",
    GOOD,
    String.raw`(?:on|ahead of) time|(?:an? |two |three )?(?:days?|hours?|weeks?) early|(?:answered|replied|fixed|solved|arrived|delivered|resolved)(?: \w+){0,3} (?:within|in) (?:minutes|hours|an hour|a day|seconds)|works? (?:like a charm|as advertised|perfectly|every time)|(?:will|would|I'll|we'll)(?: definitely| certainly| gladly)? (?:be back|come back|come again|buy (?:it )?again|return|order again)|refund arrived|(?:highly |fully |warmly )?recommended`,
  ),
  rule("slang of praise", GOOD, String.raw`(?:is|was|are|straight) (?:fire|lit|dope|goated)`),
  // Blame without a word that VADER knows
  rule(
    "waste",
    AWFUL,
    String.raw`(?:don't|do not|never) (?:waste|spend|lose) (?:your|any)(?: \w+)?|(?:want|demand|get|got|asked for|give me) (?:all )?my money back|(?:save|keep) your money|waste of (?:an? |my |your |our )?\w+|rip[- ]?off|let ?down|leaves? (?:a lot|much|something) to be desired|(?:nothing|not much) to write home about|(?:stay|steer) (?:away|clear)|avoid (?:at all costs|this|these|them|it)|expected (?:more|better)|hardly (?:the|a|any|worth)`,
  ),
  rule(
    "irony",
    AWFUL,
    String.raw`just what (?:I|we) (?:needed|wanted)|thanks? (?:you )?for nothing|yeah,? right|(?:oh|well|how),? (?:just )?(?:great|wonderful|fantastic|brilliant|lovely|perfect|nice|awesome|super)(?=[,.!…])|(?:great|wonderful|fantastic|brilliant|lovely|perfect|awesome|super), (?:yet )?(?:another|again|now)|(?:surprise, surprise)`,
  ),
  rule(
    "does not work",
    AWFUL,
    String.raw`(?:does not|doesn't|did not|didn't|won't|will not|no longer|never|not|barely|hardly) (?:even )?(?:work(?:s|ed|ing)?|respond(?:ed|s)?|arrive[ds]?|show(?:ed)? up|turn(?:ed)? up|came|come|start|reply|replied)|(?:stopped|quit) (?:working|responding|replying|answering|charging)|(?:is|was|are|were|went|keeps going) (?:down|offline|dead) ?(?:again)?|(?:falls?|fell|came|comes|breaks?|broke) (?:apart|off|down|easily)|(?:keeps?|kept) (?:crashing|freezing|failing|breaking|losing)`,
  ),
  rule(
    "waiting",
    BAD,
    String.raw`still (?:wait(?:ing)?|no (?:answer|reply|refund|sign))|(?:am|is|are|was|were|be|been|being|came|arrived|comes|running|days|weeks|hours) late|delay(?:ed|s)|(?:on hold|in line|stuck)(?= |$|[.,!])|(?:charged|billed)(?: \w+){0,2} (?:twice|double|again)|kept (?:us|me) (?:awake|waiting)|nobody (?:at \w+ \w+ )?(?:seemed to care|cared|answered|helped|came|replied)`,
  ),
  rule(
    "faults",
    BAD,
    String.raw`lack(?:s|ed|ing)?|overpriced|understaffed|unresponsive|overheat(?:s|ed|ing)?|overcooked|undercooked|unusable|laggy|buggy|clunky|flimsy|sluggish|(?:way |far |much )?too (?:expensive|small|loud|slow|hot|cold|long|short|salty|heavy|complicated)|(?:parts|pieces|screws|pages|items|half)(?: \w+){0,4} missing|(?:app|site|website|program|game|phone|laptop|printer|browser)(?: just| always)? (?:crashes|freezes|hangs|lags|crashed|froze|died)|crash(?:es|ed)? (?:on|every|all|when|constantly|again)|died (?:today|after|again|on)|(?:prices?|fees?|costs?)(?: \w+){0,2} (?:doubled|tripled)|(?:portions?|servings?)(?: \w+){0,2} shrunk|confusing|broke|smell(?:s|ed) of|disgusting`,
  ),
  // Blame by deeds and by stars
  rule(
    "ignored",
    BAD,
    String.raw`(?:heard|got|received|saw) (?:nothing|no (?:reply|answer|response|refund))|hung up on|(?:no|not) (?:reply|response|answer|refund|apology)|(?:never|nobody|no one)(?: \w+){0,3} (?:called|replied|answered|wrote back|apologi[sz]ed|showed up|helped)|(?:can't|cannot|can not|couldn't|could not|unable to|did not|didn't|does not|doesn't|would not|wouldn't|won't)(?: \w+){0,2} (?:log in|open|close|connect|install|start|charge|turn on|switch on|load|print|fit|sleep|use it|reach|help|play|hold)|out of sync|(?:any|no) (?:more|longer) works?|not what (?:was|is|I|we)|(?:last|final) (?:time|stay|order|visit|purchase)(?: \w+){0,3} here|(?:never|not|won't)(?: be)? (?:again|coming back|going back|returning|order(?:ing)? again|come back|go back|return|buy(?:ing)? again)`,
  ),
  rule("stars", AWFUL, String.raw`(?:zero|0|no|one|1|two|2) stars?(?: out of \w+)?|minus \w+ stars`),
  rule("many stars", GREAT, String.raw`(?:five|5|four|4|ten|10)[ -]?stars?(?: (?:are|is) not enough)?|10 ?/ ?10|ten out of ten`),
  rule(
    "comparison",
    BAD,
    String.raw`(?:tastes?|tasted|smells?|smelled|feels?|felt|looks?|looked|sounds?|sounded) like (?:cardboard|plastic|rubber|soap|garbage|trash|a toy|water|chalk|metal|feet|glue|dust)|if you (?:like|enjoy|love) (?:wait|stand|queue|pay|be|suffer|los)ing|what (?:a )?(?:genius|clown|idiot)`,
  ),
  rule(
    "like as preposition",
    THING,
    String.raw`(?:looks?|looked|feels?|felt|tastes?|tasted|smells?|sounds?|works?|worked|just|is|was|something|things|more|a \w+) like|like (?:a|an|the|this|that|my|our)|would like|(?:fifties|sixties|thirties) in`,
  ),
  rule(
    "good news",
    GOOD,
    String.raw`(?:lowest|falling|lower|record low) (?:unemployment|crime|inflation|poverty)|(?:found|saved|rescued|won|raised)(?: \w+){0,4} (?:alive|safe|dogs|children|award|prize|goal)|keep(?:s)? asking (?:where|how)|finally(?: \w+){1,4} (?:that|which|who) (?:works|fits|lasts|listens)|what more (?:could|can)|(?:works|worked|held up|going strong) ever since|every day since|would not go back|never go(?:ing)? back to`,
  ),
  rule("contrast", " but ", String.raw`yet(?= (?:a|an|the|it|I|we|so|still))|however|nevertheless|nonetheless|although|even though`),
  // Words of business and daily life that carry no feeling
  rule(
    "closing phrase",
    THING,
    String.raw`(?:best|kind|warm|with kind|with best) (?:regards|wishes)|yours (?:sincerely|faithfully|truly)|dear (?:sir|madam|all|\w+)|thank(?:s| you) in advance|please`,
  ),
  rule(
    "money terms",
    THING,
    String.raw`interest rates?|(?:ordinary )?shares? (?:of|in|closed|rose|fell|traded)|(?:central|savings|investment) bank|(?:insurance|policy|warranty) covers?(?: \w+,?){1,6}|free (?:plan|tier|trial|account|of)|support (?:team|ticket|page|staff|desk)|(?:primary|foreign|api) keys?|credit (?:card|note)s?|value added`,
  ),
];

/** A line of a change log: version or verb first. What was broken there is mended now, and nobody is pleased or angry. */
export const RELEASE_NOTE =
  /^\s*(?:[-*] )?(?:(?:version|release|v)\.? ?\d{1,4}(?:\.\d{1,4}){0,3}\S{0,8},? (?:\w+ )?)?(?:add|adds|added|fix|fixes|fixed|remove|removes|removed|update|updates|updated|bump|bumps|improve|improves|improved|deprecate|deprecates|deprecated|refactor|refactored|rename|renamed|drop|drops|dropped|support|supports|allow|allows|introduce|introduces|introduced|resolve|resolves|resolved|change|changes|changed|handle|handles|revert|reverts|reverted)\b/i;

/** Words without feeling in a change log or a technical sentence. */
export const TECHNICAL_WORDS =
  /(?<![\w'])(?:support(?:s|ed)?|improve(?:s|d|ments?)?|fix(?:es|ed)?|crash(?:es|ed)?|bugs?|issues?|problems?|errors?|fail(?:s|ed|ures?|ing)?|missing|invalid|valid|critical|fatal|important|warning?s?|alerts?|wrong|broken|bad|dead|kill(?:s|ed)?|abort(?:s|ed)?|cancel(?:s|led|ed)?|escape|accept(?:s|ed)?|reject(?:s|ed)?|den(?:y|ies|ied)|block(?:s|ed|ing)?|conflicts?|protect(?:s|ed)?|secure|trust(?:s|ed)?|share(?:s|d)?|unique|free|clean|cleared|clear|lost|loss|dropped|stop(?:s|ped)?|attack|vulnerabilit(?:y|ies)|in favou?r of|deprecated|resolve[sd]?|limit(?:s|ed)?|no|empty|like|restrict(?:s|ed)?|allow(?:s|ed)?|effective|efficient|optimal|success(?:ful|fully)?|active|please|hidden|hide)(?![\w'])/gi;

/** A noun that makes a sentence technical. */
export const TECHNICAL_CONTEXT =
  /(?<![\w'])(?:function|method|parameter|argument|returns?|requests?|responses?|status(?: code)?|endpoint|null|config(?:uration)?|mutex|thread|process|queue|socket|server|client|database|table|schema|key|token|cache|worker|heartbeat|chapter|documentation|documented|section|default|timeout|retry|handling|exception|compiler|button|press|enter|click|field|file name|api|http|json|parser|memory|kernel|driver|job|log|login|cookies?|settings|dialog|password)(?![\w'])/i;

/** Somebody speaks of himself, or loudly: then technical words do carry feeling. */
export const PERSONAL = /(?<![\w'])(?:I|I'm|I've|my|me|we|our|us|mine|always|again|ever|never)(?![\w'])|!/iu;

/** Emoji as VADER words; its own table knows only typed emoticons. */
export const EMOJI: readonly SentimentRule[] = [
  { name: "glad emoji", to: GREAT, pattern: /[😀😃😄😁😆😊🙂😍🥰😘🤩🥳😎🤗👍👏🎉🎊💪🙌❤💖💕💙💚💛💜🧡😂🤣😻🏆✨🔥💯😇☺🫶]/gu },
  { name: "sad emoji", to: AWFUL, pattern: /[😡😠🤬😢😭😞😔😟😩😫😖😣☹🙁👎💔🤮🤢😤😒🙄😱😰😨💩🖕😿😾]/gu },
];
