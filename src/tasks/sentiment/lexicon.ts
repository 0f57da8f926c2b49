// The English words of classify and their valence.
type Grade = 0.5 | 1 | 2 | 3;
const GRADES: readonly Grade[] = [0.5, 1, 2, 3];

/**
 * Positive words by strength: 3 (love), 2 (good), 1 (clean) and 0.5 (gives). One word of strength 0.5 alone leaves a text neutral.
 * The words are base forms; {@link valenceOf} cuts endings. A word counts in its meaning in reviews, messages and news; words
 * with several meanings there are left out.
 */
const POSITIVE: Readonly<Record<Grade, string>> = {
  3: `adore amaze amazing amazingly astonish astonishing astounding awesome awsome beautiful beautifully best bliss blissful blockbuster bravo
    breathtaking brilliant brilliantly captivating congrats congratulation dazzling delicioso delicious delight delighted delightful divine dreamy
    ecstasy ecstatic elated enchanting enthralling epic euphoric excelent excellence excellent exceptional exceptionally exhilarating exquisite
    extraordinary exuberant fabulous fantastic fantastically faultless favorite favourite finest first-class first-rate flawless flawlessly gem
    glorious goat godsend gorgeous gripping heart-warming heartwarming hilarious hooray hurray immaculate impeccable incredible incredibly insanely
    irresistible jaw-dropping joy joyful kudos legendary life-changing lifesaver love lovely luxurious magnificent marvel marvellous marvelous
    masterful masterfully masterly masterpiece mesmerising mesmerizing miracle miraculous mouth-watering mouthwatering outstanding outstandingly
    overjoyed paradise perfect perfection perfectly phenomenal phenomenally poignant priceless riveting scrumptious sensational spectacular
    spectacularly spellbinding splendid splendour spotless standout stellar stunning stunningly stupendous sublime superb superbly superlative
    terrific thrill thrilled thrilling top-notch touching treasure triumph unbeatable unforgettable unmatched unputdownable wonderful wonderfully
    wondrous woohoo world-class wow yay yum yummy`,
  2: `accomplish accomplished accurate accurately achieve achievement addictive admirable admire adorable affecting affection affectionate affordable
    agreeable allure ambiance amuse amusing appealing applaud applause appreciate appreciation appreciative approachable artful attentive attractive
    authentic award award-winning awe bargain beauty beloved beneficial benefit bestest bittersweet blast bless blessed blessing bonus brave bravery
    breeze captivate caring celebrate celebration champ champion charm charming cheer cheerful clarity cleverly comfort comfortable comfortably
    comfortingly comfy commend commendable compassion compassionate compelling complimentary confident confortable congratulate considerate convenient
    conveniently convincing convincingly cool coolest cosily cosiness cosy courage courageous courteous courtesy cozy creative crisp cuddly cured
    curiosity cushy cute cutest dazzle decent dedicated dedication deft delicate delish dependable devoted dignity diligence dreamlike durable dynamic
    eager easier easiest easily easy easy-to-use effective effectively efficient efficiently effortless effortlessly elegance elegant eloquent empower
    enchant encourage encouraging endearing energetic energise energize engaging enjoy enjoyable enjoyment entertain entertaining entertainment
    enthusiasm enthusiastic ergonomic evocative exceed excel excite excited excitement exciting exhilarated expertly exquisitely fab faithful
    fascinate fascinating fast-paced fave fearless festive flattering flavorful flavourful flourish flourishing fond foolproof forgiving fragrant
    fresh freshest friendliest friendly fulfil fulfill fulfilling fun funnier funniest funny generosity generous generously genial genius gentle
    gently genuine genuinely gifted glad gladly glamorous glow good goodness goosebumps gr8 gracious grateful gratifying gratitude great greatest
    greatly haha hahaha handsome handy happier happiest happily happiness happy harmonious harmony hassle-free heal healthy heartfelt heavenly hehe
    helpful helpfully hilarity homely homemade honest honesty honor honorable honored honour honoured hooked hopeful hospitable hospitality hug
    humorous ideal imaginative impress impressed impressive impressively improve improvement ingenious innovative insightful inspirational inspire
    inspired inspiring instructive intelligent intriguing intuitive invaluable inventive inviting jolly joyous jubilant keen kindly kindness kiss
    knowledgeable leak-proof lighthearted lively lmao lol lovable loveable loyalty lucid luckily lucky lush luv luxury magic magical magnificently
    majestic masterclass mellow memorable merry meticulous moist must-have must-read must-see nice nicely nicer nicest nourishing optimal optimism
    optimistic outperform painless pampered passion passionate patiently peace peaceful perk playful pleasant pleasantly pleased pleasing pleasure
    plentiful polished polite politely positive positively powerful praise precious precise prestigious prettier prettiest pretty proficient profound
    progress promptly proud proudly punctual quaint quick-witted rad radiant rave raved ravishing reasonable reasonably reassuring recomended
    recommend recommendation recommended record-breaking refined refresh refreshing refreshingly rejoice relax relaxed relaxing reliable reliably
    relief relieved remarkable remarkably rescued resilient resounding resourceful respectful responsive rewarding rich robust rockin rocks rofl
    romantic safe safely satisfaction satisfied satisfy satisfying satisifed savvy scenic seamless seamlessly sexy sharper sincere skilful sleek smart
    smarter smartest smile smooth smoothest smoothly snappy soothe soothing soulful spacious sparkle sparkling speedy spirited splendidly stimulating
    stirring stoked striking sturdy stylish success successful successfully succulent superior survive supportive supremely surprise sweet sweetest sweetheart
    swift swiftly sympathetic talented tasteful tastefully tastier tastiest tasty tender thank thankful thankfully thanks thanx thoughtful
    thoughtfully thoughtfulness thriving thx tidy timeless tranquil transparent treat tremendous tremendously trustworthy unbeaten unexpected
    unpretentious unrivaled unrivalled upbeat uplifting useful user-friendly valuable versatile vibrant victory vivacious vivid warmhearted warmly
    warmth welcome welcoming well-acted well-behaved well-built well-crafted well-designed well-done well-made well-organised well-organized
    well-paced well-written whimsical win winner winning wise wit witty won woo worth worthwhile worthy xd yayy youthful zest`,
  1: `able accept acceptable acclaimed accommodating adequate advance advantage adventure alive alright ambitious amicable ample approval approve aspire
    assurance assure assured astute balanced bold bolster boost bright brighter calm capable capture celebrated certified chance clean cleaner
    cleanest clear clearer clever commitment common-sense compact compliment confidence congenial congratulatory consistent consistently content
    crisply crispy crunchy curious daring dear defend delivers deserve determined diligent distinctive diverse diverting donated earnest ease eclectic
    elaborate energy enhance enjoyably enlighten enrich ensure ethical expert extensive faith famous fancy fast faster fastest favor favorable favour
    favourable fiesta fine flexible fluent fluffy focused fortunate fortunately free freedom friendship fruitful functional gain game-changing gift
    golden handily healthier heart hearty heaven helped helps hero hired holiday hope hopefully huge imagination impartial important improved
    incentive included innocent inspiration interesting journey juicy justice kind laid-back laugh laughter light-hearted lightweight likable likeable
    liked loving loyal mature meaningful melted mercy milestone moral natural neat neatly nifty nutritious ok okay open-minded paramount passable
    perfected plenty poetic portable praised pro progressive promising promote prompt protect proves provocative punchy quick quicker quickest quickly
    quiet quieter quietest quietly rare rebounded recover recovery reopened respectable reunite reunited revive reward rewards richer romance roomy
    sane save secure securely selection share sharp shine silky skilled skillful slim sober solid solidarity solidly solution solve soul special spicy
    spiritual spontaneous stable stately steady strength strengthen strongest strongly subtle sufficient sunny sunshine surprisingly survival tactful
    timely tolerant top true trust truth understand unharmed unhurt unique unspoilt untouched upside valid variety vigorous vision vitality warm
    warmer warmest wealthy well wholesome willing willingly worked works wrenching`,
  0.5: `ability adds always better both discover experience gives lasts learn strong stronger together`,
};

const NEGATIVE: Readonly<Record<Grade, string>> = {
  3: `abhor abhorrent abominable abomination abuse abusive abysmal agony appalling appallingly asshole atrocious atrocity awful awfully barf bastard
    bitch blows brutality bullshit catastrophe catastrophic crap crappy cruel cruelty deplorable despicable devastate devastated devastating disaster
    disastrous disgrace disgraceful disgust disgusted disgusting disgustingly dreadful dumbass eew ew eww excruciating execrable ffs fiasco filthy
    fraudulent fucked fuckin fucking garbage ghastly godawful gruesome hate hatred heartbroken hellish hideous horrendous horrible horribly horrid
    horrific horrify horrifying humiliate humiliating humiliation idiot idiotic inedible inexcusable infuriate infuriating insufferable intolerable
    junk loathe loathsome massacre miserable miserably misery moron moronic murder nasty nauseating nightmare obnoxious outrage outrageous pathetic
    piss pissd pissed poisonous puke putrid rape rapist reprehensible repulsive revolting ridiculous rip-off ripoff rotten rubbish scam scammed
    scammer scum shambles shameful shit shite shittiest shitty sickening stink suck suckiest sucks swindle terrible terribly terrorist terrorize
    torture tragedy tragic trash trashy travesty unacceptable unacceptible unbearable unusable unwatchable useless vile vomit wicked worst worthless
    wretched wtf`,
  2: `abandon absurd accuse ache aggravate aggravating aimless alarming alienate amateurish anger angrily angry anguish annoy annoyance annoying
    annoyingly anxiety anxious apathetic apologise apologize apology argh arrogance arrogant ashamed ass assassinate assault attacker awkward
    awkwardly backfire backlash bad badly baffling banal bankrupt bankruptcy barking barren beaten belligerent betray betrayal beware bigot bigotry
    bitter bitterness blah blame bland blatant bleak bleed bloated bloody blunder bogus bombed bombing boo bore bored boredom boring botch botched
    bother bothersome brainless breakage broken brutal bug-ridden buggy bully bullying bummer burden buried careless casualty cheat cheated cheater
    choppy clash cliche cliched cliché clichéd clog clogged clueless clumsy clunky cockroach coerce collapse complain complained complaint
    condescending confuse confused confusing confusion contaminate contempt contrived convoluted corny corrupt corruption counterfeit coward cowardly
    crash crashed crazy creak creaky creep crime criminal cringe cringeworthy cripple criticise criticism criticize crook crude cry crying cumbersome
    curse cynical damage damaged damaging damn damned danger dangerous deadly death deceit deceitful deceive deception deceptive defeats defect
    defective deficient degrade dehumanise delay delayed delusional demean demoralize depress depressed depressing depression deprive derail desert
    desperate desperately despise destroy destroyed destruction destructive deteriorate detest devoid die died dirty disable disadvantage disagree
    disappoint disappointed disappointing disappointingly disappointment disapproval disapprove discomfort disconnects discourage discouraging
    discriminate discrimination dishonest dishonesty disingenuous disinterest dislike dismal dismay dismissive disorganised disorganized displease
    disrespect disrespectful disrupt disruption dissatisfaction dissatisfied distasteful distort distract distracting distress distressing distrust
    disturb dizzy dodgy doom doomed dopey doubtful downside drab drag drain drawback dread dreary drivel drown drunk dud dull dumb dump dysfunctional
    egregious embarrass embarrassed embarrassing embarrassment enrage envy epidemic erratic error-prone evil exaggerate exasperate exasperating
    excessive exhausting exploit exploitation eyesore fail failed failure fake false falsely famine farce fatal fatality fault faulty fear feeble
    fiend filth flaw flawed flimsy flop foolish forgery forgettable foul frantic fraud freak freeze freezes freezing frighten frightening froze frozen
    frustrate frustrated frustrating frustratingly frustration fud furious fury fuss futile genocide gimmick gimmicky glitch glitchy gloom gloomy
    greasy greed greedy grieve grim grinding gripe gross grouchy grr grubby grudge grumble grumpy guilty half-assed half-baked hangs hapless harass
    harassment harm harmful harsh haunt hazard headache heartache heartless hell helpless hoax hollow homelessness homicide hopeless horror hostage
    hostile hostility humorless humourless hurt hurtful hypocrisy hypocrite hypocritical ignorance ignorant ignore ignored ill illegal illness immoral
    impair impatient imperfect implausible impossible impractical inaccurate inadequate inane inappropriate inaudible incoherent incompetence
    incompetent incomplete incomprehensible inconsiderate inconsistent inconvenience inconvenient incorrect incredulous ineffective inefficient inept
    inferior inflate inflict infringe infuriated inhumane injure injured injury injustice insane insecure insensitive insincere insipid insult
    insulting interminable invasive irresponsible irritable irritate irritated irritating irritation itchy jealous jealousy jerk jobless kill killed
    killer lack lacking lackluster lacklustre lag laggy lame layoff lazy leak leaked leaky letdown liar lied lifeless lousy ludicrous luke lukewarm
    lumbering lying mad madhouse madness malfunction malicious manipulative mediocre meh melodramatic menace mess messy mindless misfire misfortune
    mishandle mislead misleading misled mistake mistreat mistreated mock mockery moldy monotonous monster mouldy mourn muddled mushy naive narrow
    nausea nauseous nazi needless needlessly neglect neglected negligent nerve-wracking noisy nonsense nonsensical nowhere obscene offend offended
    offensive ominous oppress oppressive overbearing overcharge overcharged overcooked overhaul overheat overheats overlong overpriced overrated
    overwrought pain painful painfully panic paranoid pedestrian peeling peril perish pervert pest pitiful pity plague plodding plotless pointless
    poison pollute pollution pompous poor poorer poorest poorly prejudice pretentious prick problem problematic propaganda punish punishment quit
    racism racist rage rambling rancid reckless reek refuse refused regret regretful regrettable regrettably reject rejected rejection repetitive
    resent resentment returned riddled riot rob robbed robbery rude rudely rudest ruin ruined runaround rushed sabotage sad sadder saddest sadly
    sadness sappy scandal scare scared scary scathing scold scratchy scream screwed screwup senseless severe severely sexism sexist shallow sham shame
    shameless shatter shattered shock shocking shockingly shoddy shortage shortcoming sick sinister slander slaughter sleazy slimy sloppy slow slower
    slowest slowly slug sluggish smash smashed smelly smh smug snag snapped snob snobby sob soggy sore sorrow sour spam spite spiteful spoil spoiled
    squander stale starve stereotypical stiff stingy stolen strand stranded stress stressed stressful struggle stuck stuffy stupid stupidity stupidly
    sub-par subpar substandard sucker suffer suffering suicide suspicious swear tacky tasteless tearful tedious tense tension terror threat threaten
    threatening ticking tired tiresome tiring toothless tortuous toxic traitor trauma traumatic trivial trouble troubled troublesome turmoil ugh
    ugliest ugly unable unanswered unappealing unappetizing unavailable unbalanced unbelievable unclean uncomfortable unconvincing uncool undelivered
    undercooked underwhelming undone uneasy unemployed unethical uneven unfair unfairly unfinished unforgivable unfortunate unfriendly unfunny unhappy
    unhealthy unhelpful unimaginative unimpressed unimpressive uninspired uninspiring uninteresting unintuitive unjust unkind unlawful unlucky
    unnecessarily unnecessary unpleasant unprofessional unrealistic unreasonable unreliable unresolved unresponsive unsafe unsanitary unsatisfactory
    unsatisfied unsatisfying unstable unsuccessful unuseable unwanted unwelcome upset upsetting vandal vandalism vapid vicious victim violate violence
    violent vulgar warped waste wasted wasting weak weaker weakest weary weep whine whiny wobbly worried worry worrying worse worsen wound wounded
    wreck wrong wronged yell yuck yucky`,
  1: `abortion accident accidentally against aggression aggressive alas allegation alone annoyed argue argument attempt avalanche avoid ban bark beg
    besiege bitten bleh blemish blurry bomb breakdown broke bruise bug bump burn burnt cancel canceled cancelled cancer canned cash-grab caution cheap
    cheaply cheesy choke choked clutter cluttered complicated concern concerned condemn confront controversial controversy corpse costly cough crack
    cracked crammed cramped creased creepy critique crooked crowded crushed damp dark dead deaf debt decay decline decrease deficit delays demise dent
    dented deport despair desperation difficult difficulty dilemma dim disaffected disappear disappearance disconnect disconnected disease dishearten
    dismiss dispute disturbing doubt drift drip drop dropped drought drunken dry dust dusty earthquake emergency empty enemy error evict excuse
    exhausted exile expensive expire expired explode explosion eyeroll fade faded famished fatigue fatty fell feud fever fight filler flat flood
    floods forbid forced forget forgot fraught fray frayed friction frown funeral fuzzy gap generic gloat grave grief gritty grueling gruelling
    guiltily hair hairs hassle hateful heavy heavy-handed hide hijack hit-and-miss hole hunger hungry hurry impose incident infect infection infested
    inflation inmate insufficient interrupt interruption interrupts invade invasion isolate issue jail jammed jerky kidnap killjoy lacked lacks lament
    lapse late lawsuit limp loading lonely loose lose loser losing loss lost loud manipulate manually meager meagre misinform mislabelled misplace
    missed misses missing mistrust misunderstand moan mob mold moody mugged nag negative negligence nervous nervy nuisance numb objection obsolete
    obstruct odd oddly odor odour ordeal outage outcry outdated overdone overdue overload overly overwhelm overwhelmed packed pale parasite
    pathological pessimistic pickpocket plain plight plunge pointlessness preachy predictable pressure pretend pricey prohibit protest pushy
    questionable rant rash rat recession redundant refugee relapse reluctant repetition restrict rigid rip ripped risk risky roach rust rusty salty
    sanction scar scarce scattered sceptical scrap scratch scratched setback shaken shaky shooting shut sicker sigh silly sink skeptical sketchy
    skimpy skip slack slam slump smell smoke snore sorry split stain stained stickiness sticky sting stole stopped strike stubborn stumble stunted
    superficial suspend suspicion sweat sweaty tangle tantrum tear terminate theft thief thwart timid tinny tiny toilet toll torn tough tremble
    uncertain unclear underestimate undermine underpowered understaffed unfit unfortunately unknown unpaid unpopular unrest unsold unsure untrue
    unused uproot urgent vacuous vague victimised violation virus vulnerable war warn warning wary watery weakness weird weirdly
    wildfire wilt withdraw withdrawn wither withhold wobble worn wrestle wrinkle`,
  0.5: `'s assume attempts cut instead intentions mean neither nor off routine searching seem seems short sitting thin trying unless wait waited waiting why`,
};

/** All base forms with their valence, −3..3. */
export const WORDS: ReadonlyMap<string, number> = new Map([...graded(POSITIVE, 1), ...graded(NEGATIVE, -1)]);

/** Neutral words that look like a form of a word with a valence. */
export const NO_FEELING: ReadonlySet<string> = new Set(
  `cooler dudes fined finer freely goods heartily issued issuing lately later latest meaning means number numbers rates rating ratings savings shares
    sinks topped topping toppings treated treats waiter waiters wells wined`.split(/\s+/),
);

function graded(lists: Readonly<Record<Grade, string>>, sign: 1 | -1): [string, number][] {
  return GRADES.flatMap((grade) => lists[grade].split(/\s+/).map((word): [string, number] => [word, sign * grade]));
}

/** The valence of an English word in lower case, −3..3; 0 if it is not known. Endings are cut by rules. */
export function valenceOf(word: string): number {
  if (NO_FEELING.has(word)) return 0;
  const known = WORDS.get(word);
  if (known !== undefined) return known;
  for (const base of basesOf(word)) {
    if (NO_FEELING.has(base)) return 0;
    const valence = WORDS.get(base);
    if (valence !== undefined) return valence;
  }
  return 0;
}

/** The words that `word` may be a form of, the most likely first. */
function* basesOf(word: string): Generator<string> {
  const length = word.length;
  if (length < 4) return;
  if (word.endsWith("'s")) yield word.slice(0, -2);
  if (word.endsWith("ies") || word.endsWith("ied") || word.endsWith("ier")) yield `${word.slice(0, -3)}y`;
  if (word.endsWith("iest") || word.endsWith("ness"))
    yield word.endsWith("iness") ? `${word.slice(0, -5)}y` : word.endsWith("iest") ? `${word.slice(0, -4)}y` : word.slice(0, -4);
  if (word.endsWith("ily")) yield `${word.slice(0, -3)}y`;
  for (const ending of ["s", "es", "ed", "ing", "er", "est", "ly", "d", "ings", "ers", "ingly", "edly"]) {
    if (!word.endsWith(ending)) continue;
    const stem = word.slice(0, -ending.length);
    if (stem.length < 3 || (ending === "d" && !stem.endsWith("e"))) continue;
    yield stem;
    if (ending === "s" || ending === "d") continue;
    yield `${stem}e`;
    // stopped, running
    if (stem.length > 3 && stem.at(-1) === stem.at(-2)) yield stem.slice(0, -1);
    // possibly, gently
    if (ending === "ly") yield `${stem}le`;
  }
}
