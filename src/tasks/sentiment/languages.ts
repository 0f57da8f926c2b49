// Scores German, French and Spanish sentences for classify, with a small lexicon each.
import { signOf, tokensOf } from "./tokens.ts";

/** A language with a small lexicon. It is enough for a simple review, but it has no phrases. */
type Language = {
  /** The most frequent words of the language. They identify it. */
  readonly common: ReadonlySet<string>;
  readonly negators: ReadonlySet<string>;
  readonly boosters: ReadonlySet<string>;
  /** Words such as "but". The text after one counts more. */
  readonly contrasts: ReadonlySet<string>;
  /** Valences by the beginning of a word, because these languages have more endings than English. The longest match counts. */
  readonly stems: ReadonlyMap<string, number>;
};

const NEGATED = -0.8;
const REACH = 4;

const set = (list: string): ReadonlySet<string> => new Set(list.split(/\s+/));
const stems = (great: string, good: string, bad: string, awful: string): ReadonlyMap<string, number> =>
  new Map([
    ...great.split(/\s+/).map((stem): [string, number] => [stem, 3]),
    ...good.split(/\s+/).map((stem): [string, number] => [stem, 2]),
    ...bad.split(/\s+/).map((stem): [string, number] => [stem, -2]),
    ...awful.split(/\s+/).map((stem): [string, number] => [stem, -3]),
  ]);

const ENGLISH = set(
  "the and is was of to in it that this for with my i you are on not be have at but they we very so a an as were from your has had will would what which there their our",
);

const LANGUAGES: readonly Language[] = [
  {
    common: set(
      "der die das und ist war nicht ich es ein eine mit auf für zu den dem von sehr wir sie hat auch aber im noch wie bei nach man wird sind haben aus als habe sich nur oder dass kein keine leider",
    ),
    negators: set("nicht kein keine keinen keinem keiner nie niemals ohne weder kaum nirgends niemand nichts"),
    boosters: set("sehr so total wirklich absolut extrem besonders richtig überaus viel zu ganz"),
    contrasts: set("aber jedoch doch trotzdem dennoch sondern leider"),
    stems: stems(
      "hervorragend ausgezeichnet fantastisch großartig wunderbar wunderschön perfekt liebe begeister exzellent genial traumhaft super toll spitze klasse grandios herrlich einwandfrei tadellos unschlagbar",
      "gut gute guter gutes guten besser freundlich schön angenehm zufrieden empfehl lecker köstlich hilfsbereit hilfreich sauber schnell nett freu glücklich danke dank bequem gemütlich praktisch gelungen überzeug zuverlässig lohnt lobenswert preiswert reibungslos pünktlich gerne spaß beeindruck stolz erfolg gewonnen gewinn liebevoll problemlos frisch",
      "schlecht schwach langsam teuer laut schmutzig dreckig unfreundlich enttäusch kaputt defekt ärger langweil mangel mängel problem fehler leider unbequem kalt verspät versalzen warte traurig schade nervig umständlich unzuverlässig beschwer reklam verloren verletzt krank stress unbrauchbar billig hässlich unhöflich gebrochen vergessen nachteil beschädig fehlt überteuert zurückgeschickt angst",
      "furchtbar schrecklich katastroph grauenhaft grauenvoll ekelhaft eklig horror abzocke betrug unverschämt frech frechheit miserabel unerträglich nutzlos schlimm schlimmste hass wertlos müll schrott skandal zumutung",
    ),
  },
  {
    common: set(
      "le la les et est un une des de du que qui dans pour pas je nous vous il elle très avec sur mais ce cette au sont par plus mon ma mes ne se c'est j'ai était ont tout bien aussi n'est été trop",
    ),
    negators: set("pas jamais aucun aucune sans ni rien personne guère"),
    boosters: set("très vraiment tellement si trop extrêmement absolument particulièrement bien super"),
    contrasts: set("mais cependant pourtant toutefois malheureusement"),
    stems: stems(
      "excellent magnifique superbe parfait formidable merveill fantastique génial exceptionnel adore j'adore extraordinaire incroyable délicieu splendide sublime ravi impeccable",
      "bon bonne bons bonnes bien mieux meilleur agréable sympa gentil aimable accueillant recommand content satisfait beau belle beaux propre rapide efficace confortable pratique facile merci heureu heureuse plaisir aime j'aime réussi charmant chaleureu utile bravo fier fière attentionn gagné succès apprécié fiable frais",
      "mauvais déçu decu décevant lent cher sale bruyant froid problème panne cassé impoli désagréable dommage malheureusement ennuyeu ennui triste difficile compliqué retard défaut manque perdu plaint plainte inutile fatigu médiocre erreur blessé malade peur stress abîmé incompétent fade regret remboursement inadmissible",
      "horrible affreu terrible catastroph nul nulle nuls honte honteu dégoûtant dégueulasse arnaque scandal insupportable pire détest déteste lamentable épouvantable infect voleur",
    ),
  },
  {
    common: set(
      "el la los las y es un una de que en por para no con muy me mi se lo su pero como más está fue son del al esta este ha todo nos le si ya también hay cuando sin era",
    ),
    negators: set("no nunca jamás ningún ninguna sin ni nada nadie tampoco"),
    boosters: set("muy realmente tan demasiado extremadamente absolutamente totalmente súper bastante"),
    contrasts: set("pero sino aunque lamentablemente desgraciadamente embargo"),
    stems: stems(
      "excelente maravillos fantástic perfect increíble magnífic espectacular estupend encant genial delicios extraordinari fabulos impecable insuperable fenomenal",
      "buen bueno buena buenos buenas bien mejor bonit amable simpátic agradable recomend content satisfech limpi rápid rápido cómod fácil feliz gracias gusta gustó divertid útil hermos lind práctic atent eficient ric rico rica éxito disfrut alegr orgullos precios acogedor ganó fiable fresco",
      "mal malo mala malos malas peor lent car caro cara suci ruidos frí problema rot roto rota defectuos decepcion aburrid triste difícil lástima tard retras falla fallo error enfad molest incómod queja perd perdí desagradable grosser inútil complicad dañad enferm miedo olvid maleducad pésim falta",
      "horrible terrible asqueros espantos fatal basura estafa vergüenza odio odi nefast desastr insoportable inaceptable ladron asco timo",
    ),
  },
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
    if (value === 0) return;
    for (let j = i - 1; j >= Math.max(0, i - REACH) && tokens[j]?.kind === "word"; j--) {
      const before = tokens[j]?.text ?? "";
      if (language.negators.has(before)) {
        value *= value > 0 ? NEGATED : NEGATED / 2;
        break;
      }
      if (j === i - 1 && language.boosters.has(before)) value *= 1.5;
    }
    if (contrast > 0) value *= i < contrast ? 0.6 : 1.5;
    sum += value;
  });
  return sum;
}

function stemValence(word: string, lexicon: ReadonlyMap<string, number>): number {
  const whole = lexicon.get(word);
  if (whole !== undefined) return whole;
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

/** The language of `text` if it is German, French or Spanish; undefined for English and all other languages. */
export function languageOf(text: string): Language | undefined {
  // The first few hundred words are enough.
  const words = tokensOf(text.slice(0, 4000)).filter(({ kind }) => kind === "word");
  let best: Language | undefined;
  // One match is not enough, because some words belong to several languages: "no" is English too.
  let most = Math.max(1, words.filter((word) => ENGLISH.has(word.text)).length);
  for (const language of LANGUAGES) {
    const count = words.filter((word) => language.common.has(word.text)).length;
    if (count > most) {
      best = language;
      most = count;
    }
  }
  return best;
}
