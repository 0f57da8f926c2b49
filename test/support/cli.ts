import { buildCli } from "../../scripts/build-cli.ts";

/** The entry of `compute-router`, as its users run it. */
export const CLI = buildCli();
