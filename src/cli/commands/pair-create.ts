import { countdown } from "../../sdk/countdown.ts";
import type { ComputeRouter, PairedWorker, PairingOffer } from "../../sdk/index.ts";
import { untrusted } from "../../worker/node/printable.ts";
import { shortKey } from "../../worker/node/status-line.ts";
import { command } from "../command.ts";
import { offerLines } from "../pair-screen.ts";
import { print, printJson } from "../print.ts";
import { asking, sameUser, SEEKER_ARGS } from "../seeker.ts";

/** A terminal that does not tell its size. */
const UNKNOWN = { columns: 80, rows: 24 };
const SECOND_MS = 1_000;

/** `compute-router pair create`. */
export const pairCreate = command({
  name: "pair create",
  description: "Get a code that a worker's owner can claim, so that the worker may run your PRIVATE jobs; on a terminal, wait until one has",
  args: { ...SEEKER_ARGS, wait: { type: "boolean", description: "Wait for the worker; --no-wait: do not. Default: on a terminal, without --json" } },
  run: async (args) => {
    const json = args.json === true;
    const { isTTY, columns, rows } = process.stdout;
    const waits = args.wait ?? (isTTY && !json);
    await asking(args, async (client) => {
      const offer = await client.trust.create();
      const { pairing_code, expires_at, workerUrl } = offer;
      const color = isTTY && (process.env["NO_COLOR"] ?? "") === "";
      if (json) printJson({ pairing_code, expires_at, worker_url: workerUrl });
      else print(offerLines(offer, { color, columns: columns || UNKNOWN.columns, rows: rows || UNKNOWN.rows }).join("\n"));
      if (!waits) return;
      const worker = await waited(client, offer, { isLive: color && !json });
      if (worker === undefined) {
        if (!json) print(`the code stays valid until ${untrusted(expires_at)}; to see who claimed it: ${untrusted(sameUser("pair list", args))}`);
        process.exitCode = 130;
      } else if (json) printJson({ provider_pubkey: worker.publicKey, fingerprint: worker.fingerprint, paired_at: worker.pairedAt });
      else
        print(
          `paired with worker ${worker.fingerprint} (key ${untrusted(shortKey(worker.publicKey))})\nIts owner sees the same words; if not, it is another worker.`,
        );
    });
  },
});

/** Waits for the worker, counting down where that can be seen; undefined when the person ends it. */
async function waited({ trust }: ComputeRouter, offer: PairingOffer, { isLive }: { isLive: boolean }): Promise<PairedWorker | undefined> {
  const ending = new AbortController();
  const onSignal = () => ending.abort();
  process.once("SIGINT", onSignal);
  const draw = () => process.stdout.write(`\r\u001B[K  waiting for a worker; expires in ${countdown(offer.expiresAt.getTime() - Date.now())}`);
  if (isLive) draw();
  const ticking = isLive ? setInterval(draw, SECOND_MS) : undefined;
  try {
    return await trust.waitForWorker(offer, { signal: ending.signal });
  } catch (error) {
    if (ending.signal.aborted) return undefined;
    throw error;
  } finally {
    clearInterval(ticking);
    process.off("SIGINT", onSignal);
    if (isLive) process.stdout.write("\r\u001B[K");
  }
}
