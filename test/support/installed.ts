import { installEmbedded } from "../../src/worker/runtimes/embedded-install.ts";

/** Installs the embedded runtime when it is missing, so that LLM jobs of the tests run on real tokens. */
export async function setup(): Promise<void> {
  const installed = await installEmbedded((line) => console.log(`embedded runtime: ${line}`));
  if (!installed.ok) throw new Error(installed.message);
}
