import { configFolder } from "../../worker/node/config-folder.ts";
import { untrusted } from "../../worker/node/printable.ts";
import { command } from "../command.ts";
import { print, printJson, printUntrusted } from "../print.ts";
import { SEEKER_ARGS } from "../seeker.ts";
import { keptUserId, userIdFile } from "../user-id.ts";

/** `compute-router user`. */
export const user = command({
  name: "user",
  description: "Print the user id that the commands use without --user (made on first use); it is a secret",
  args: { "config-dir": SEEKER_ARGS["config-dir"], json: SEEKER_ARGS.json },
  run: (args) => {
    const configDir = args["config-dir"];
    const folder = configFolder(configDir === undefined ? {} : { configDir });
    const id = keptUserId(folder);
    if (args.json === true) return printJson({ user_id: id, file: userIdFile(folder) });
    // Alone on standard output, so that a script can take it.
    printUntrusted(`${id}\n`);
    print(`from ${untrusted(userIdFile(folder))}; a secret: whoever has it can use your pairings`, process.stderr);
  },
});
