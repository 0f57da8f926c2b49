/** A line of a change log: version or verb first. What was broken there is mended now, and nobody is pleased or angry. */
const RELEASE_NOTE =
  /^\s*(?:[-*] )?(?:(?:version|release|v)\.? ?\d{1,4}(?:\.\d{1,4}){0,3}\S{0,8},? (?:\w+ )?)?(?:add|adds|added|fix|fixes|fixed|remove|removes|removed|update|updates|updated|bump|bumps|improve|improves|improved|deprecate|deprecates|deprecated|refactor|refactored|rename|renamed|drop|drops|dropped|support|supports|allow|allows|introduce|introduces|introduced|resolve|resolves|resolved|change|changes|changed|handle|handles|revert|reverts|reverted)\b/i;

/** A noun that makes a sentence technical. */
const TECHNICAL_CONTEXT =
  /(?<![\w'])(?:function|method|parameter|argument|returns?|requests?|responses?|status(?: code)?|endpoint|null|config(?:uration)?|mutex|thread|process|queue|socket|server|client|database|table|schema|key|token|cache|worker|heartbeat|chapter|documentation|documented|section|default|timeout|retry|handling|exception|compiler|button|field|file name|api|http|json|parser|memory|kernel|log|login|cookies?|settings|dialog|password)(?![\w'])/i;

/** Somebody speaks of himself, or loudly: then technical words do carry feeling. */
const PERSONAL = /(?<![\w'])(?:I|I'm|I've|my|me|we|our|us|mine|always|again|ever|never)(?![\w'])|!/iu;

/** Words without feeling in a change log or a technical sentence. */
const TECHNICAL_WORDS =
  /^(?:support(?:s|ed)?|improve(?:s|d|ments?)?|fix(?:es|ed)?|crash(?:es|ed)?|bugs?|issues?|problems?|errors?|fail(?:s|ed|ures?|ing)?|missing|invalid|valid|critical|fatal|important|warning?s?|alerts?|wrong|broken|bad|dead|kill(?:s|ed)?|abort(?:s|ed)?|cancel(?:s|led|ed)?|escape|accept(?:s|ed)?|reject(?:s|ed)?|den(?:y|ies|ied)|block(?:s|ed|ing)?|conflicts?|protect(?:s|ed)?|secure|trust(?:s|ed)?|share(?:s|d)?|unique|free|clean|cleared|clear|lost|loss|drop(?:s|ped)?|stop(?:s|ped)?|attack|vulnerabilit(?:y|ies)|favou?r|must|deprecated|resolve[sd]?|limit(?:s|ed)?|no|empty|like|restrict(?:s|ed)?|allow(?:s|ed)?|effective|efficient|optimal|success(?:ful|fully)?|active|please|hidden|hide|free|loading|lock(?:s|ed)?|delay(?:s|ed)?|force[ds]?|violations?|dangling|crucial|delete[sd]?|attempts?|defects?|alone|empty|master|slave|panic|exhausted|expired?|expires|stale|corrupt(?:ed)?|leaks?|degraded|timed|unknown|unable|unexpected|easily|fast(?:er)?|slow(?:er)?|improvements?)$/;

/** Whether the sentence has the form of a change log or of technical prose, whose `error` and `fix` are nobody's mood. */
export function isFactualForm(sentence: string): boolean {
  return RELEASE_NOTE.test(sentence) || (TECHNICAL_CONTEXT.test(sentence) && !PERSONAL.test(sentence));
}

/** Whether `word`, in lower case, carries no feeling in a sentence of factual form. */
export function isTechnical(word: string): boolean {
  return TECHNICAL_WORDS.test(word);
}
