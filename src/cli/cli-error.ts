import type { EXIT } from "./exit-code.ts";

/** An end of the program that a person can do something about: `message` says what. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exit: Exclude<(typeof EXIT)[keyof typeof EXIT], 0>;

  constructor(exit: CliError["exit"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.exit = exit;
  }
}
