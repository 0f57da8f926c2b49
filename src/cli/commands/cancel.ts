import { inWords } from "../../protocol/text.ts";
import { isUuid } from "../../sdk/shapes.ts";
import { ownCommand } from "../../worker/node/command-name.ts";
import { CliError, command, EXIT } from "../command.ts";
import { print, printJson } from "../print.ts";
import { asking, SEEKER_ARGS } from "../seeker.ts";
import { cancellationText } from "../waiting.ts";

/** `compute-router job cancel`. */
export const cancel = command({
  name: "job cancel",
  description: "Cancel a job that was committed from this machine. A job that a worker has started is charged all the same",
  args: {
    id: { type: "positional", required: true, description: "The job's id" },
    "cancel-token": { type: "string", valueHint: "token", description: "The X-Cancel-Token of the commit, for a job of another machine" },
    url: SEEKER_ARGS.url,
    "config-dir": SEEKER_ARGS["config-dir"],
    json: SEEKER_ARGS.json,
  },
  run: async (args) => {
    if (!isUuid(args.id)) throw new CliError(EXIT.usage, `ID must be a UUID, got ${inWords(args.id)}; see: ${ownCommand("job cancel --help")}`);
    const token = args["cancel-token"];
    // A cancel has no user.
    const anybody = { url: args.url, user: "cancel", "config-dir": args["config-dir"] };
    const cancellation = await asking(anybody, (client) => client.cancel(args.id, token === undefined ? {} : { cancelToken: token }));
    const { job, cancelled, charged, credit } = cancellation;
    if (args.json === true) return printJson({ cancelled, charged, credit, job });
    print(cancellationText(cancellation));
  },
});
