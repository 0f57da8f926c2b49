import { type ArgsDef, type CommandContext, type CommandDef, defineCommand } from "citty";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

type Definition<T extends ArgsDef> = {
  /** Left out of the list of sub-commands. */
  hidden?: boolean;
  name: string;
  description: string;
  args: T;
  run: (args: CommandContext<T>["args"]) => Promise<void> | void;
};

/** A command that refuses options and words it does not know: citty takes them silently, and a typing error would change the meaning. */
export function command<const T extends ArgsDef>({ name, description, args, run, hidden = false }: Definition<T>): CommandDef<T> {
  const words = Object.values(args).filter((arg) => arg.type === "positional").length;
  return defineCommand<T>({
    meta: { name: `compute-router ${name}`, description, hidden },
    args,
    run: async (context) => {
      for (const [option, value] of Object.entries(context.args)) {
        if (option === "_") continue;
        const definition = args[option] ?? args[option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)];
        if (definition === undefined) throw usage(`unknown option --${option}`, name);
        if (value === "" && definition.type === "string") throw usage(`--${option} needs a value`, name);
      }
      if (context.args._.length > words) throw usage(`unexpected "${context.args._[words]}"`, name);
      await run(context.args);
    },
  });
}

function usage(problem: string, name: string): CliError {
  return new CliError(EXIT.usage, `${problem}; see: compute-router ${name} --help`);
}
