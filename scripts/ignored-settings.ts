// Warnings for settings that would be ignored: names that are no settings, and a TESTNET_MODE that is nearly true.
import { SETTING_NAMES } from "../src/coordinator/config.ts";
import { inWords } from "../src/protocol/text.ts";

/** A name with more differences is another name, not a typing error. The environment has the names of other programs too. */
const NEAR = { option: 4, environment: 2 };

/** The warnings for environment variables that are nearly a setting: such a line in a service's file would be ignored. */
export function mistypedSettings(): string[] {
  const names = Object.keys(process.env).filter((name) => /^[A-Z][A-Z0-9_]+$/.test(name) && !SETTING_NAMES.includes(name));
  return names.flatMap((name) => {
    const meant = nearestSetting(name, NEAR.environment);
    return meant === null ? [] : [`${name}: no setting has this name; did you mean ${meant}?`];
  });
}

/** The warning for an unknown setting at a place; null for a known one. It is only a warning, because the setting may belong to another version. */
export function unknownSetting(place: string, name: string): string | null {
  if (SETTING_NAMES.includes(name)) return null;
  const meant = nearestSetting(name, NEAR.option);
  const hint = meant === null ? "; docs/operations.md lists the settings" : `; did you mean ${meant}?`;
  return `${place}: the coordinator does not know this setting${hint}`;
}

/**
 * The warning for a `TESTNET_MODE` that is neither `true` nor `false`; null for one that is. Only `true` makes jobs free, so that a typing error never does.
 */
export function unclearTestnetMode(mode: string): string | null {
  return ["true", "false", ""].includes(mode) ? null : `TESTNET_MODE is ${inWords(mode)}: only true makes jobs free, so they must be paid`;
}

/** The setting whose name has the fewest differences; null if even these are more than `most`. */
function nearestSetting(name: string, most: number): string | null {
  const possible = SETTING_NAMES.filter((known) => Math.abs(known.length - name.length) <= most);
  const [nearest] = possible.map((known) => ({ known, steps: distance(name, known) })).toSorted((a, b) => a.steps - b.steps);
  return nearest !== undefined && nearest.steps <= most ? nearest.known : null;
}

/** How many letters must be changed, added or removed to turn one text into the other (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1];
    for (const [j, wanted] of [...other].entries()) {
      next.push(Math.min((row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1, (row[j] ?? 0) + (letter === wanted ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
