/** Words whose feeling VADER does not know, or gets wrong outside of social media, as a word that it does know. */
export const WORD_SENSES: ReadonlyMap<string, string> = new Map([
  ...words(
    "good",
    `sturdy quiet durable comfy cosy cozy tidy roomy spacious crisp juicy tender fluffy smooth smoothly seamless seamlessly
    effortless effortlessly intuitive snappy responsive lightweight compact versatile affordable reasonable punctual prompt
    promptly attentive knowledgeable courteous polite approachable patient thoughtful welcoming homely accommodating
    transparent stylish sleek ergonomic reliable dependable trustworthy foolproof well-made well-built hassle-free easy-to-use
    user-friendly timeless refreshing tasty yummy flavourful flavorful fresher freshest moist crunchy scrumptious
    cleaner sharper faster quicker easier safer nicer brighter smarter painless speedy bargain steal finally upgrade
    reopened recovered recovers rebounded thriving flourishing record-breaking milestone raised donated healed cured`,
  ),
  ...words(
    "excellent",
    `flawless immaculate impeccable exquisite mesmerising mesmerizing unbeatable unmatched peerless unforgettable exceptional
    unputdownable mouthwatering mouth-watering breathtaking jaw-dropping spellbinding heavenly divine masterpiece gem
    delighted thrilled addictive`,
  ),
  ...words(
    "bad",
    `slow slower sluggish laggy late noisy loud cramped stuffy sticky greasy soggy stale bland tasteless flavourless flavorless
    lukewarm burnt overcooked undercooked watery rubbery mushy chewy salty cracked scratched dented chipped torn ripped bent
    loose leaking leaked leaks leaky jammed jams stuck wobbly wobbles flimsy creaky squeaky rattles peeled peeling faded fades
    rusted rusty frayed misaligned blurry grainy pixelated glitchy buggy clunky clumsy tedious repetitive predictable overlong
    overrated overpriced overcharged understaffed underwhelming mediocre lacklustre lackluster forgettable pointless gimmick
    confusing cluttered outdated cumbersome unintuitive unclear vague vaguely unreliable inconsistent unresponsive
    unanswered ignored ignores dismissive unprofessional inattentive condescending patronising impatient disorganised
    disorganized unhelpful incompetent careless sloppy shoddy tacky cheaply knockoff counterfeit misleading overheats
    overheated overheating freezes froze freezing hangs crashes crashed crashing malfunctioned malfunctions glitches bugs lag
    lags delays delayed delay cancelled canceled postponed expensive pricey hidden missing lacking lacks lacked broken breaks
    broke snapped shattered fell collapsed spilled moldy mouldy damp musty filthy stains stained smelly reeks reeked stinks
    stank sour bitter inedible drafty draughty itchy uncomfortable exhausting regrettable regretted refuse refused refuses
    homeless layoffs recession drought famine wildfire earthquake casualties injured evacuated evacuate bankrupt bankruptcy`,
  ),
  ...words(
    "terrible",
    `unusable worthless useless defective dud junk garbage trash rubbish lemon scam scammed ripoff rip-off swindle con fraudulent
    appalling atrocious abysmal dreadful unacceptable inexcusable disgraceful shambles fiasco nightmare infuriating revolting
    disgusting vile repulsive nauseating hideous unbearable intolerable laughable joke insulting`,
  ),
  // Everyday words that VADER learned from cheers and jeers
  ...words(
    "thing",
    `play plays played playing player players share shares shared free set party parties accept accepts accepted number numbers
    worn lowest low lower certain certainly agree agrees agreement interest interests interested united matter matters demand
    demands natural straight chance chances hand hands pay pays paid paying argument arguments cut cuts drop drops dropped
    novel active engage growing block blocks hide intense opportunity opportunities promise promised promises shy sceptical
    skeptical tank tanks fire fires fired fight cancer war weapon gun lone original grand vision responsible sincere sincerely
    legal legally greet treasure treasurer solid heavyweight stop stops stopped alone gross grave graves bomb prison jail
    robber hell god gods ha challenge challenges challenged risk risks defence defense tax want wants wanted yes no
    well-known important significant significance save saved saves ready cleared strike strikes adopt adopts`,
  ),
]);

function words(sense: string, list: string): [string, string][] {
  return list.split(/\s+/).map((word) => [word, sense]);
}
