// Recognises the language of a text for classify, and scores German, French and Spanish sentences with a small lexicon each.
import { valenceOf } from "./lexicon.ts";
import { signOf, type Token, tokensOf } from "./tokens.ts";

/** A language other than English. A small lexicon is enough for a simple review, but it has no phrases. Most languages have none. */
type Language = {
  /** The most frequent words of the language. They identify it. */
  readonly common: ReadonlySet<string>;
  /** Letters and endings that English text seldom has. */
  readonly look: RegExp;
  readonly negators: ReadonlySet<string>;
  readonly boosters: ReadonlySet<string>;
  /** Words such as "but". The text after one counts more. */
  readonly contrasts: ReadonlySet<string>;
  /** Words that complain if they are negated, and say nothing otherwise: "works", "arrived". */
  readonly expected: ReadonlySet<string>;
  /** Valences by the beginning of a word, because these languages have more endings than English. The longest match counts. */
  readonly stems: ReadonlyMap<string, number>;
};

const NEGATED = -0.8;
const NEGATED_EXPECTATION = -2;
const REACH = 4;
const REACH_AFTER = 3;

const set = (list: string): ReadonlySet<string> => new Set(list.split(/\s+/));
const stems = (great: string, good: string, bad: string, awful: string): ReadonlyMap<string, number> =>
  new Map([
    ...great.split(/\s+/).map((stem): [string, number] => [stem, 3]),
    ...good.split(/\s+/).map((stem): [string, number] => [stem, 2]),
    ...bad.split(/\s+/).map((stem): [string, number] => [stem, -2]),
    ...awful.split(/\s+/).map((stem): [string, number] => [stem, -3]),
  ]);

// The negators that can stand after the word that they negate.
const NEGATORS_AFTER = set("nicht nie niemals pas jamais");
const CONJUNCTIONS = set("und et y");

const ENGLISH = set(
  `the and is was of to in it that this for with my i you are on not be have at but they we very so a an as were from your has had will would what which there their our
  it's don't can't he she his her its these those been about if or can just how why when who been out up get got if than then into`,
);
// Words of the lists below that are English words too. "im" is read as "i'm".
const SHARED = set(
  `die war was man so am an in also hat all um no me son on a as la le des de van non pour plus do as or is over to by men fin sale mine is dare come
  i'm total super absolut absolute fast los si tan sin ganz sur ton met te den der at i for for we of het au en un son o no ham per`,
);

const NONE: ReadonlySet<string> = new Set();
const unread = (common: string, look = /(?!)/): Language => ({
  common: set(common),
  look,
  negators: NONE,
  boosters: NONE,
  contrasts: NONE,
  expected: NONE,
  stems: new Map(),
});

// Latin letters that English does not have, and no English word.
const UNKNOWN = unread("");

const LANGUAGES: readonly Language[] = [
  {
    common: set(
      "der die das und ist war nicht ich es ein eine mit auf für zu den dem von sehr wir sie hat auch aber im noch wie bei nach man wird sind haben aus als habe sich nur oder dass kein keine leider um vom zum zur ihr uns mein meine mir mich dir einen einem einer wenn weil kann wurde werden diese dieser dieses mehr schon immer wieder hier da am i'm bis durch über vor alle alles gibt kommt kam geht macht heute gestern morgen bitte danke wann warum waren hatte bin fast nie-wieder",
    ),
    // An article, a noun with its capital letter and a word without one: "Die Preise gelten". English has no such beginning.
    look: /[äöüßÄÖÜ]|(?<!\p{L})[sS]ch[lmnrw]|(?:sche[nrs]?|scht?|keit|heit|[ei]rung|igung|icht|[gk]t|mmt|tzt|[aeu]tz)(?!\p{L})|(?<!\p{L})(?:Die|Der|Das) \p{Lu}\p{Ll}+ \p{Ll}/u,
    negators: set("nicht kein keine keinen keinem keiner nie niemals ohne weder kaum nirgends niemand nichts"),
    boosters: set("sehr so total wirklich absolut extrem besonders richtig überaus viel zu ganz"),
    contrasts: set("aber jedoch doch trotzdem dennoch sondern leider"),
    expected: set("funktioniert funktionieren geht klappt angekommen geliefert reagiert antwortet erreichbar erhalten bekommen erstattet hält"),
    stems: stems(
      "hervorragend ausgezeichnet fantastisch großartig wunderbar wunderschön perfekt liebe begeister exzellent genial traumhaft super toll spitze klasse grandios herrlich einwandfrei tadellos unschlagbar",
      "gut gute guter gutes guten besser freundlich schön angenehm zufrieden empfehl lecker köstlich hilfsbereit hilfreich sauber schnell nett freu glücklich danke dank bequem gemütlich praktisch gelungen überzeug zuverlässig lohnt lobenswert preiswert reibungslos pünktlich gerne spaß gefällt gefallen beeindruck stolz erfolg gewonnen gewinn liebevoll problemlos frisch",
      "schlecht schwach langsam teuer laut schmutzig dreckig unfreundlich enttäusch kaputt defekt ärger langweil mangel mängel problem fehler leider unbequem kalt verspät versalzen warte traurig schade nervig umständlich unzuverlässig beschwer reklam verloren verletzt krank stress unbrauchbar billig hässlich unhöflich gebrochen vergessen nachteil beschädig fehlt überteuert stürzt abgestürzt absturz zurückgeschickt angst",
      "furchtbar schrecklich katastroph grauenhaft grauenvoll ekelhaft eklig horror abzocke betrug unverschämt frech frechheit miserabel unerträglich nutzlos schlimm schlimmste hass hasse nie-wieder wertlos schrott skandal zumutung",
    ),
  },
  {
    common: set(
      "le la les et est un une des de du que qui dans pour pas je nous vous il elle très avec sur mais ce cette au sont par plus mon ma mes ne se c'est j'ai était ont tout bien aussi n'est été trop aux ces elles ils leur où quand comme même fait merci cet votre notre du plus-jamais",
    ),
    look: /[çœéèê]|(?:eaux?|[aeo]ux|oire?)(?!\p{L})/u,
    negators: set("pas jamais aucun aucune sans ni rien personne guère"),
    boosters: set("très vraiment tellement si trop extrêmement absolument particulièrement bien super"),
    contrasts: set("mais cependant pourtant toutefois malheureusement"),
    expected: set("marche fonctionne fonctionnent arrivé arrivée reçu répond répondent livré remboursé"),
    stems: stems(
      "excellent magnifique superbe parfait formidable merveill fantastique génial exceptionnel adore j'adore extraordinaire incroyable délicieu splendide sublime ravi impeccable",
      "bon bonne bons bonnes bien mieux meilleur agréable sympa gentil aimable accueillant recommand content satisfait beau belle beaux propre rapide efficace confortable pratique facile merci heureu heureuse plaisir aime j'aime réussi charmant chaleureu utile bravo fier fière attentionn gagné succès apprécié fiable frais pas-mal",
      "mauvais éviter déçu decu décevant lent cher sale bruyant froid problème panne cassé impoli désagréable dommage malheureusement ennuyeu ennui triste difficile compliqué retard défaut manque perdu plaint plainte inutile fatigu médiocre erreur blessé malade peur stress abîmé incompétent fade regret remboursement inadmissible",
      "horrible affreu terrible catastroph nul nulle nuls honte honteu dégoûtant dégueulasse arnaque scandal insupportable pire détest déteste lamentable épouvantable infect voleur plus-jamais",
    ),
  },
  {
    common: set(
      "el la los las y es un una de que en por para no con muy me mi se lo su pero como más está fue son del al esta este ha todo nos le si ya también hay cuando sin era los sus fue gracias porque desde hasta todos he ha han tiene estoy nunca-más",
    ),
    look: /[ñíóúá¿¡]|(?:miento|mente|[ai]d[oa]s)(?!\p{L})/u,
    negators: set("no nunca jamás ningún ninguna sin ni nada nadie tampoco"),
    boosters: set("muy realmente tan demasiado extremadamente absolutamente totalmente súper bastante"),
    contrasts: set("pero sino aunque lamentablemente desgraciadamente embargo"),
    expected: set("funciona funcionan llega llegado llegó recibido responde responden contesta contestan carga"),
    stems: stems(
      "excelente maravillos fantástic perfect increíble magnífic espectacular estupend encant genial delicios extraordinari fabulos impecable insuperable fenomenal",
      "buen bueno buena buenos buenas bien mejor bonit amable simpátic agradable recomend recomiend content satisfech limpi rápid rápido cómod fácil feliz gracias gusta gustó divertid útil hermos lind práctic atent eficient ric rico rica riquísim buenísim éxito disfrut alegr orgullos precios acogedor ganó fiable fresco",
      "mal malo mala malos malas peor lent caro caros cara caras suci ruidos frí problema rot roto rota defectuos decepcion aburrid triste difícil lástima tard retras falla fallo error enfad molest incómod queja perd perdí pérdida desagradable grosser inútil complicad dañad enferm miedo olvid maleducad pésim falta",
      "horrible terrible asqueros espantos fatal basura estafa vergüenza odio odi nefast desastr insoportable inaceptable ladron asco timo nunca-más",
    ),
  },
  // Italian, Portuguese, Dutch, Swedish, Danish and Norwegian, Polish, Czech, Turkish, Indonesian, Romanian, Hungarian, Finnish.
  unread(
    "il lo gli di che non è per con una uno del della dei delle sono questo questa molto ma anche come più nel nella al alla alle si mi ho ha è stato era tutto bene",
    /[ìòù]/,
  ),
  unread(
    "o os as um uma de do da dos das que não é em para com muito mais mas por foi são está eu ele ela isso este esta meu minha também já se no na às ao",
    /[ãõ]/,
  ),
  unread("de het een en van ik niet is op te dat die met voor zijn er aan ook maar heb naar om bij uit nog wat geen heeft deze hij wij je ze mijn werd goed"),
  unread("och att det som en på är av för med till den har inte om ett han men var jag sig från så kan när nu mycket eller hade", /å/),
  unread("og det at en den til er som på de med han af ikke der var mig jeg sig men et har om min havde fra eller nu hvad av å i", /[åøæ]/),
  unread("i w na nie się to z do że jest jak o co ale po tak za od już bardzo czy mnie dla tym są był była przez", /[ąęłńśźż]/),
  unread("a je se na že to v s z do i o ale jako by za tak už jsem není jsou pro velmi který při", /[ěřůžč]/),
  unread("ve bir bu için çok ile ama da de ne var yok daha gibi değil ben olan kadar sonra her", /[ğış]/),
  unread("dan yang di itu dengan untuk tidak ini dari dalam akan pada juga saya ke ada sudah bisa"),
  unread("și să nu este un o de la cu pe din care mai sunt am pentru foarte dar ce", /[ășț]/),
  unread("a az és nem hogy van egy ez meg de is csak már nagyon volt még", /[őű]/),
  unread("ja on ei se että hän oli mutta en ovat myös kun niin olen minä tämä kuin hyvin", /ää|yö/),
];

/**
 * The valence of a sentence in `language`, which comes from `languageOf`: the sum of the valences of its words and signs,
 * with negation, emphasis and contrast.
 */
export function foreignValence(sentence: string, language: Language): number {
  const tokens = tokensOf(sentence);
  const contrast = tokens.findIndex(({ text }) => language.contrasts.has(text));
  let sum = 0;
  tokens.forEach(({ text, kind }, i) => {
    let value = kind === "sign" ? signOf(text) : kind === "word" ? stemValence(text, language.stems) : 0;
    const isExpected = language.expected.has(text);
    if (value === 0 && !isExpected) return;
    if (kind === "word" && isNegated(tokens, i, language)) value = isExpected ? NEGATED_EXPECTATION : value * (value > 0 ? NEGATED : NEGATED / 2);
    if (i > 0 && language.boosters.has(tokens[i - 1]?.text ?? "")) value *= 1.5;
    if (contrast > 0) value *= i < contrast ? 0.6 : 1.5;
    sum += value;
  });
  return sum;
}

/** True if a negator of the word at `at` stands shortly before it in its clause, or closely after it: "geht nicht", "ne marche pas". */
function isNegated(tokens: readonly Token[], at: number, { negators, contrasts }: Language): boolean {
  for (const [step, reach, list] of [
    [-1, REACH, negators],
    [1, REACH_AFTER, NEGATORS_AFTER],
  ] as const) {
    for (let i = at + step; Math.abs(i - at) <= reach; i += step) {
      const token = tokens[i];
      if (token?.kind !== "word" || contrasts.has(token.text) || CONJUNCTIONS.has(token.text)) break;
      if (list.has(token.text)) return true;
    }
  }
  return false;
}

function stemValence(wholeWord: string, lexicon: ReadonlyMap<string, number>): number {
  const whole = lexicon.get(wholeWord);
  if (whole !== undefined) return whole;
  // French joins its shortest words to the next: "n'aime".
  const word = wholeWord.replace(/^(?:[cdjlmnst]|qu)'/, "");
  // A stem of three or four letters matches only words that are at most two letters longer.
  for (let length = Math.min(word.length, 14); length >= 5; length--) {
    const valence = lexicon.get(word.slice(0, length));
    if (valence !== undefined) return valence;
  }
  for (const length of [4, 3]) {
    const valence = word.length <= length + 2 ? lexicon.get(word.slice(0, length)) : undefined;
    if (valence !== undefined) return valence;
  }
  return 0;
}

/** The language of `text`; undefined for English. */
export function languageOf(text: string): Language | undefined {
  // The first few hundred words are enough. Addresses are no words: "com" is Portuguese.
  const head = text
    .slice(0, 4000)
    .split(/\s+/)
    .filter((word) => !/[/@]|\w\.\w/.test(word))
    .join(" ");
  const words = tokensOf(head).filter(({ kind }) => kind === "word");
  let best: Language | undefined;
  let most = 0;
  for (const language of LANGUAGES) {
    const lead = leadOverEnglish(words, language, language.look.test(head));
    if (lead > most) {
      best = language;
      most = lead;
    }
  }
  const isForeign = best === undefined && /[À-ÖØ-öø-\u024f]/u.test(head) && !words.some(({ text: word }) => ENGLISH.has(word) || valenceOf(word) !== 0);
  return isForeign ? UNKNOWN : best;
}

/** How much more of `language` than of English is in `words`. It is 0 without any word or form that English does not have: "no no no" is no Spanish. */
function leadOverEnglish(words: readonly Token[], language: Language, looksLikeIt: boolean): number {
  let own = looksLikeIt ? 2 : 0;
  let shared = 0;
  let english = 0;
  for (const { text } of words) {
    if ([language.common, language.negators, language.boosters, language.contrasts].some((list) => list.has(text))) {
      if (SHARED.has(text)) shared++;
      else own += 2;
    } else if (stemValence(text, language.stems) !== 0 || language.expected.has(text)) own++;
    else if (valenceOf(text) !== 0) english += 2;
    if (ENGLISH.has(text)) english += 2;
  }
  return own === 0 || own + shared < 2 ? 0 : own + shared - english;
}
