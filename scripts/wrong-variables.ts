import { readSettings, wrongSettings } from "../src/coordinator/config.ts";
import { type Asked, type FileVariables, fileVariables, variables } from "./variables.ts";

/** Describes what is wrong with the variables of a coordinator, and in which file, to the person who set them; null if nothing is. */
export function wrongVariables({ instance, settings }: Asked, read: () => FileVariables = () => fileVariables(instance)): string | null {
  const given = wrongSettings({ ...settings, INSTANCE: instance });
  if (given !== null) return given;
  try {
    const files = read();
    const places = Object.entries(files);
    for (const [at, [file, vars]] of places.entries()) {
      // A value that a later place replaces is not used.
      const later = Object.assign({}, ...places.slice(at + 1).map(([, others]) => others), settings);
      const wrong = wrongSettings({ INSTANCE: instance, ...Object.fromEntries(Object.entries(vars).filter(([name]) => !Object.hasOwn(later, name))) });
      if (wrong !== null) return `${file}: ${wrong}`;
    }
    // Some settings are wrong only beside others.
    readSettings(variables({ instance, settings }, files));
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
