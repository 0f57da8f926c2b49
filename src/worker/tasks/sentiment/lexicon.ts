type Grade = 0.5 | 1 | 2 | 3;
const GRADES: readonly Grade[] = [0.5, 1, 2, 3];

/**
 * Words that carry feeling, by strength from 3 (love) over 2 (good) to 1 (: counts beside other signs, not alone).
 * Base forms: `valence.ts` reads endings. Senses follow reviews, messages and news; words that mislead there are left out.
 */
const POSITIVE: Readonly<Record<Grade, string>> = {
  0.5: `adds both ability experience together always gives learn discover`,
  3: `excelent awsome delicioso phenomenally goat
    adore amaze amazing amazingly astonishing astounding awesome beautiful beautifully best blissful bliss breathtaking brilliant
    brilliantly captivating congrats congratulation dazzling delicious delight delighted delightful divine dreamy ecstasy ecstatic
    elated enchanting enthralling epic euphoric excellent excellence exceptional exceptionally exhilarating exquisite extraordinary
    fabulous fantastic fantastically faultless favorite favourite finest flawless flawlessly glorious gorgeous hilarious
    immaculate impeccable incredible incredibly insanely irresistible jaw-dropping joy joyful love lovely luxurious magical
    magnificent marvel marvellous marvelous masterful masterfully masterpiece masterly mesmerising mesmerizing miraculous miracle
    mouthwatering mouth-watering outstanding outstandingly overjoyed paradise perfect perfection perfectly phenomenal priceless
    riveting scrumptious sensational spectacular spectacularly spellbinding splendid spotless stellar stunning stunningly
    sublime superb superbly superlative terrific thrill thrilled thrilling top-notch treasure triumph unbeatable unforgettable
    unmatched unputdownable wonderful wonderfully wondrous wow yum yummy yay woohoo hooray hurray bravo kudos legendary
    astonish stupendous splendour life-changing lifesaver first-rate first-class world-class gem godsend standout
    blockbuster exuberant gripping heartwarming heart-warming touching poignant bffl xoxo`,
  2: `rocks bargain adorable hooked bonus clarity healthy homemade heavenly delish authentic ambiance cosiness recomended hospitality comfy satisifed confortable pampered rave raved unrivalled unrivaled unbeaten
    blast talented skilful exhilarated resounding
    rich surprise worth inspirational affecting stirring captivate bittersweet courtesy thoughtfulness delicate unexpected striking rewarding perk standout yayy woo pleased
    accomplish accomplished accurate accurately achieve achievement admirable admire affection affectionate affordable agreeable
    allure amuse amusing appealing applaud applause appreciate appreciation appreciative approachable artful attentive attractive
    award award-winning awe beauty beloved beneficial benefit bless blessed blessing bravery brave breeze     caring celebrate celebration champ champion charm charming cheer cheerful cleverly comfort comfortable comfortably     commend commendable compassion compassionate compelling complimentary confident congratulate considerate convenient
    conveniently convincing cool coolest courage courageous courteous cozy cosy creative crisp cuddly cured cute cutest dazzle decent
    dedicated dedication deft dependable devoted dignity durable dynamic eager easy easier easiest easily easy-to-use effective
    effectively efficient efficiently effortless effortlessly elegant elegance eloquent empower enchant encourage encouraging
    endearing energetic energise energize engaging enjoy enjoyable enjoyment entertain entertaining entertainment enthusiasm
    enthusiastic ergonomic excite excited excitement exciting exceed excel expertly exquisitely fab faithful fascinate
    fascinating fast-paced fearless festive flattering flavorful flavourful fond foolproof forgiving fragrant fresh
    freshest friendly friendliest fulfil fulfill fulfilling fun funnier funniest funny generous generosity generously
    genial genius gentle gently genuine genuinely gifted glad gladly glamorous glow good goodness gracious grateful gratitude great greatest greatly
    handsome handy happier happiest happily happiness happy harmonious harmony hassle-free heal heartfelt helpful helpfully
    hilarity homely honest honesty honor honour honored honoured honorable hopeful hospitable humorous ideal
    imaginative impress impressed impressive impressively improve improvement ingenious innovative insightful inspire inspired
    inspiring instructive intelligent intriguing intuitive invaluable inventive inviting jolly joyous jubilant keen kindness kindly knowledgeable
    leak-proof lively lol loveable lovable loyalty lucky luckily lucid lush luxury majestic memorable mellow merry meticulous
    moist nice nicely nicest nicer nourishing optimal optimism optimistic painless passion passionate patiently peace peaceful playful
    pleasant pleasantly pleased pleasing pleasure plentiful polished polite politely positive positively powerful praise precious
    precise prestigious pretty prettier prettiest proficient profound progress promptly proud proudly punctual quaint quick-witted     radiant ravishing reasonable reasonably reassuring recommend recommendation refined refresh refreshing refreshingly rejoice relaxed relaxing relax reliable reliably
    relief relieved remarkable remarkably rescued resilient resourceful respectful responsive rewarding     robust rockin romantic safe safely satisfaction satisfied satisfy satisfying savvy scenic seamless seamlessly sexy sharper     sincere sleek smart smarter smartest smile smooth smoothest smoothly snappy soothe soothing soulful spacious sparkle sparkling speedy spirited splendidly
    stimulating sturdy stylish success successful successfully succulent superior supportive supremely sweet sweetest sweetheart swift swiftly sympathetic
    tasteful tastefully tasty tastier tastiest tender thank thanks thankful thankfully thanx thx thoughtful thoughtfully thriving tidy timeless tranquil transparent
    treat trustworthy upbeat uplifting user-friendly useful valuable versatile vibrant victory vivid vivacious warmhearted warmly warmth welcome welcoming well-acted
    well-behaved well-built well-crafted well-designed well-done well-made well-organised well-organized well-written well-paced whimsical win winner winning wise wit witty won worthwhile worthy
    youthful zest fave hug kiss haha hahaha hehe stoked gr8 luv lmao rofl xd bestest comfortingly convincingly gratifying
    rad cushy must-have must-see must-read recommended unpretentious magnificently
    heartily flourish flourishing record-breaking outperform masterclass brilliantly dreamlike evocative tremendous tremendously lighthearted`,
  1: `lightweight portable securely functional eclectic healthier roomy variety selection huge plenty included extensive special favourable crispy slim
    sharp magic diverting journey wrenching friendship milestone spiritual helped helps true assured clever reward rewards loyal inspiration laugh laughter prompt
    hero romance important holiday moral rare vision understand proves delivers timely capture vitality provocative imagination famous worked entertainment soul poetic romantic ambitious affectionate
    able accept acclaimed accommodating advance advantage adventure alive amicable ample approve approval aspire assure assurance astute balanced bold bolster
    boost bright brighter calm capable celebrated certified chance clean cleaner cleanest clear clearer commitment common-sense compact
    confidence congenial consistent consistently content crisply crunchy curious daring dear defend deserve determined diligent distinctive diverse earnest ease
    elaborate encourage energy enhance enlighten enrich ensure ethical expert faith fancy fast faster fastest favor favour favorable     fine flexible fluent fluffy focused fortunate fortunately free freedom fruitful gain game-changing gift golden handily
    heaven heart hearty hope hopefully improved impartial incentive innocent interesting juicy justice kind laid-back
    lasts light-hearted likable likeable liked loving mature meaningful mercy natural neat neatly nutritious     open-minded paramount perfected pro progressive promising promote protect quick quicker quickest quickly quiet quieter quietest quietly recover recovery     reunite revive richer save savings secure share shine silky skilled skillful solid solidly solution solve spicy spontaneous stable
    stately steady strength strengthen strong stronger strongest strongly subtle sunny sunshine surprisingly tactful top trust truth unique unspoilt untouched upside valid vigorous
    warm warmer warmest well wealthy wholesome willing willingly works fiesta enjoyably sane solidarity
    punchy compliment congratulatory adequate alright okay ok acceptable passable respectable nifty sufficient unharmed unhurt reopened rebounded donated reunited praised`,
};

const NEGATIVE: Readonly<Record<Grade, string>> = {
  0.5: `seems seem why only off less nor neither short thin routine trying attempts assume mean sitting cut intentions unless searching where's instead`,
  3: `blows horrid eww eew ew pissd unacceptible
    abhor abhorrent abominable abomination abuse abusive abysmal agony appalling appallingly atrocious atrocity awful awfully brutality catastrophe catastrophic crap
    crappy cruel cruelty deplorable despicable devastate devastated devastating disaster disastrous disgrace disgraceful disgust disgusted disgusting dreadful
    excruciating execrable fiasco filthy fraudulent fucked fuckin fucking garbage ghastly godawful gruesome hate hatred heartbroken hellish hideous horrendous horrible horribly
    horrific horrify horrifying humiliate humiliating humiliation inedible inexcusable infuriate infuriating insufferable intolerable junk laughably loathe loathsome massacre miserable miserably misery murder nasty
    nauseating nightmare obnoxious outrageous outrage pathetic piss pissed poisonous putrid rapist rape reprehensible repulsive revolting ridiculous rip-off ripoff rotten rubbish scam scammer scammed scum shambles shameful
    shit shitty shittiest shite sickening stink suck suckiest sucks swindle terrible terribly terrorist terrorize torture tragic tragedy trash trashy unacceptable unbearable unusable unwatchable useless
    vile vomit wicked worst worthless wretched bullshit asshole bastard bitch idiot idiotic moron moronic dumbass wtf ffs travesty disgustingly crapfest barf puke`,
  2: `blah madhouse overhaul breakage forgery rude bland downside drawback unsanitary freeze freezes froze frozen crash gross returned beware luke lukewarm bloody whine sucker wasting ticking bogus defeats unuseable unstable overheats inflate disconnects unappealing tasteless unanswered
    nazi whiny dopey implausible blatant exploitation sexist sexism incredulous
    hell drag fraud complaint flaw horror ass devoid undone freezing buried hangs nowhere apology apologise apologize excessive unbelievable bombing terror brutal
    abandon absurd accuse ache aggravate aggravating aimless alarming alienate amateurish anger angry angrily anguish annoy annoyance annoying annoyingly anxiety anxious apathetic arrogant arrogance ashamed assassinate
    assault attacker awkward awkwardly backfire backlash bad badly baffling banal bankrupt bankruptcy barren beaten belligerent betray betrayal bigot bigotry bitter bitterness blame bleak bleed bloated blunder bombed bore bored boredom boring botch botched bother bothersome broken brainless bug-ridden buggy bully bullying burden
    careless cheat cheated cheater choppy clash cliche clichéd cliché cliched clog clogged clueless clumsy clunky cockroach coerce collapse complain complained condescending confuse confused confusing confusion contaminate contempt contrived convoluted corny corrupt corruption counterfeit coward cowardly crashed crazy creaky creak creep criminal crime cringe cringeworthy cripple criticise criticize criticism crook crude cry crying cumbersome curse cynical
    damage damaged damaging damn danger dangerous deadly death deceit deceitful deceive deception deceptive defect defective deficient degrade dehumanise delay delayed delusional demean demoralize depress depressed depressing depression deprive derail desert desperate desperately despise destroy destroyed destruction destructive deteriorate detest die died dirty disable disadvantage disagree disappoint disappointed disappointing disappointingly disappointment disapprove
    disapproval discomfort discourage discouraging discriminate discrimination dishonest dishonesty disingenuous disinterest dislike dismal dismay dismissive disorganised disorganized displease disrespect disrespectful disrupt disruption dissatisfied dissatisfaction distasteful distort distract distracting distress distressing distrust disturb dizzy dodgy doom doomed doubtful drab drain dread dreary drivel drown drunk dud dull dumb dump dysfunctional
    egregious embarrass embarrassed embarrassing embarrassment enrage envy erratic error-prone evil exaggerate exasperate exasperating exhausting exploit eyesore fail failed failure fake false falsely farce fatal fatality fault faulty fear feeble fiend filth flawed flimsy flop foolish forgettable foul frantic freak frighten frightening frustrate frustrated frustrating
    frustratingly frustration fud fuss furious fury futile genocide gimmick gimmicky gloomy gloom glitch glitchy greed greedy greasy grieve grim gripe grouchy grubby grudge grumble grumpy guilty half-assed half-baked hapless harass harassment harm harmful harsh haunt hazard headache heartache heartless helpless hoax hollow homicide hopeless hostage hostile hostility humourless humorless hurt hurtful hypocrisy hypocrite hypocritical
    ignorance ignorant ignore ignored ill illegal illness immoral impair impatient imperfect impossible impractical inaccurate inadequate inane inappropriate inaudible incoherent incompetence incompetent incomplete incomprehensible inconsiderate inconsistent inconvenience inconvenient incorrect inefficient ineffective inept inferior inflict infringe infuriated inhumane injure injured injury injustice insane insecure insensitive insincere insipid insult insulting interminable
    invasive irresponsible irritable irritate irritated irritating irritation itchy jealous jealousy jerk killer kill killed lack lackluster lacklustre lacking lag laggy lame lazy leak leaked leaky letdown liar lied lifeless ludicrous lumbering lying mad madness malfunction malicious manipulative mediocre melodramatic menace mess messy mindless misfire misfortune mishandle mislead misleading misled mistake mistreat mistreated mock mockery moldy mouldy monotonous monster mourn muddled mushy
    naive nausea nauseous needless needlessly neglect neglected negligent nerve-wracking nonsense nonsensical noisy obscene offend offended offensive ominous oppress oppressive overcharge overcharged overbearing overcooked overheat overlong overpriced overrated overwrought pain painful painfully panic paranoid pedestrian peeling peril perish pervert pest pitiful pity plague plodding plotless pointless poison pollute pollution pompous poor poorer poorest poorly prejudice pretentious prick problem problematic propaganda punish punishment quit
    racism racist rage rambling rancid reckless refuse refused regret regretful regrettable regrettably reject rejected rejection reek repetitive resent resentment riddled riot rob robbed robbery rudely rudest ruin ruined runaround rushed sabotage sad sadder saddest sadly sadness sappy scandal scare scared scary scathing scold scratchy scream screwed senseless severe severely shallow sham shame shameless shatter shattered shoddy shock shocking shockingly shortage shortcoming sick     sinister slaughter sleazy slimy sloppy slow slower slowest slowly slug sluggish smash smashed smelly smug snag snapped snob snobby sob sore soggy sorrow sour spam spite spiteful spoil spoiled squander stale starve stereotypical stiff stingy stolen strand stranded stress stressed stressful struggle stuck stuffy stupid stupidly stupidity subpar sub-par substandard suffer suffering suicide suspicious swear
    tacky tearful tedious tense tension threat threaten threatening tired tiresome tiring toothless tortuous toxic traitor traumatic trauma trivial trouble troubled troublesome turmoil ugly ugliest unable unappetizing unavailable unbalanced unclean uncomfortable unconvincing uncool undercooked underwhelming undelivered uneasy unemployed unethical uneven unfair unfairly unfinished unforgivable unfortunate unfriendly unfunny unhappy
    unhealthy unhelpful unimaginative unimpressed unimpressive uninspired uninspiring uninteresting unintuitive unjust unkind unlawful unlucky unnecessary unnecessarily unpleasant unprofessional unrealistic unreasonable unreliable unresolved unresponsive unsafe unsatisfactory unsatisfied unsatisfying unsuccessful unwanted unwelcome upset upsetting
    vandal vandalism vapid vicious victim violence violent violate vulgar warped wasted waste weak weaker weakest weary weep wobbly worry worried worrying worse worsen wound wounded wreck wrong wronged yell yuck yucky meh smh ugh argh boo bummer lousy damned grr screwup slander famine homelessness layoff epidemic casualty`,
  1: `cheap unfortunately accidentally lacks lacked stickiness wobble jerky mold roach hair dry tough wait waited waiting delays annoyed hairs fuzzy creased crooked tiny cramped
    misses missing scattered repetition canned manually dust fatty disturbing creepy despair grief attempt pointlessness
    war aggressive dropped drop forced stopped heavy loading toilet  fight bomb dark
    against alarm alas alone argue argument avoid beg besiege blurry breakdown broke bruise bug bump burn burnt cancel cancelled canceled cancer cash-grab caution cheaply cheesy complicated concern concerned condemn controversial controversy costly cough crack cracked crammed critical critique crowded damp     dead debt decay decline decrease deficit demise dent dented deport desperation difficult difficulty dilemma disappear disappearance disaffected disease dismiss dispute doubt drought dusty emergency empty enemy error excuse exhausted expensive expire expired fade faded fell fever filler flat flood forbid forget forgot fraught fray frayed gap generic gritty guiltily     hassle heavy-handed hide hijack hit-and-miss hole hurry incident inflation insufficient interrupt interruption isolate issue jammed jail killjoy lament late lawsuit limp lonely loose lose loser losing loss lost loud manipulate missed mislabelled misplace misunderstand mob moody negative nervous nervy nuisance numb objection odd oddly odor odour outdated overdone overload overly overwhelm overwhelmed pale pathological pessimistic plain pretend protest
    questionable rat recession redundant reluctant rigid risk risky rust rusty salty scar scratch scratched scrap shaky shut silly sink skeptical sceptical slack smell smoke sorry split stain stained stole strike stumble stunted superficial suspend suspicion tangle tear tinny torn uncertain unclear undermine underpowered understaffed unknown unsure unused vague victimised warn warning watery weird weirdly withdraw withdrawn wary wilt worn wrestle
    abortion accident aggression allegation ban bitten blemish bleh choke choked clutter cluttered confront corpse crushed deaf dim disconnect disconnected dishearten drift drip drunken earthquake evict exile explode explosion eyeroll famished fatigue feud fined friction frown funeral gloat grave gruelling grueling hateful hunger hungry impose infect infection infested inmate invade invasion kidnap lapse meager meagre misinform mistrust moan mugged nag negligence obsolete obstruct ordeal outage outcry overdue parasite
    pickpocket plight plunge predictable preachy pricey pressure prohibit pushy rant rash refugee relapse restrict rip ripped sanction scarce setback shaken shooting sicker sigh skimpy sketchy slam slump snore sting stubborn sweat sweaty tantrum terminate theft thief thwart timid toll tremble underestimate unfit unpaid unpopular unrest unsold untrue uproot urgent vacuous violation virus vulnerable weakness wildfire withhold wrinkle wither`,
};

/** Base forms with their valence, −3..3. */
export const WORDS: ReadonlyMap<string, number> = new Map([...graded(POSITIVE, 1), ...graded(NEGATIVE, -1)]);

function graded(lists: Readonly<Record<Grade, string>>, sign: 1 | -1): [string, number][] {
  return GRADES.flatMap((grade) => lists[grade].split(/\s+/).map((word): [string, number] => [word, sign * grade]));
}

/** Words and forms without feeling that the endings rule would take for one with, or whose usual sense has none. */
export const NO_FEELING: ReadonlySet<string> = new Set(
  `rating ratings fined number numbers during string strings meaning means meant wing wings wined party's really early only
  daily likely rally belly july reply supply apply family friend friends mint mister master wonder's interest's
  rates sharepoint shares finest-known finer fined kinder-garten playing goods thanksgiving backing issued issuing issues-tracker
  sinks topped topping toppings savings likes liked-by welfare fairy fairground fairly freely hardware hearing heartily lastly lately
  latest later coolant cooler holder mastered well-known workshop patients band bands wind winds james dudes tied wells barring patients' leads treated treats`.split(/\s+/),
);
