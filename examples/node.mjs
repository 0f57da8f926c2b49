// Ask an LLM, check the receipt, and read an answer while it is written: node examples/node.mjs "What is a hash?"
// Set ROUTER_BASE_URL for another coordinator than http://127.0.0.1:4010.
import { ComputeRouter, ComputeRouterError } from "compute-router";

const question = process.argv[2] ?? "What is a hash?";
const router = new ComputeRouter({ requireVerified: true });
// Ctrl-C cancels the job of this program. A second Ctrl-C ends the program at once.
const stop = new AbortController();
const { signal } = stop;
process.once("SIGINT", () => stop.abort());

try {
  const { data } = await router.models({ signal });
  console.log(`models: ${data.map(({ id }) => id).join(", ") || "without a name"}`);

  const { output, verified, receipt, price } = await router.chat([{ role: "user", content: question }], { maxTokens: 100, signal });
  console.log(`${output}\n(${verified ? "verified" : "not verified"}, worker ${receipt.provider_pubkey.slice(0, 8)}, ${price})`);

  const stream = router.stream({ job_type: "LLM_INFER", prompt: question }, { signal });
  for await (const piece of stream.text) process.stdout.write(piece);
  console.log(`\n(${(await stream.result).verified ? "verified" : "not verified"})`);
  console.log(router.usage());
} catch (error) {
  if (!signal.aborted && !(error instanceof ComputeRouterError)) throw error;
  console.error(signal.aborted ? "cancelled" : `${error.code}: ${error.message}`);
  // Not process.exit(): the cancel is still on its way, and Node ends by itself when it has arrived.
  process.exitCode = signal.aborted ? 130 : 1;
}
