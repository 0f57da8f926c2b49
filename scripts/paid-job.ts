import { untrusted } from "../src/worker/node/printable.ts";
import { ComputeRouter, type PaymentChallenge } from "../src/sdk/index.ts";
import type { Coordinator } from "./coordinator-process.ts";
import { answeredBy, type FirstJob, shortened } from "./first-jobs.ts";
import type { LabProcess } from "./lab-process.ts";

const DOLLAR = 1_000_000n;
/** No first job costs more. */
const MAX_PRICE = "$0.010";

/** Runs one paid job and prints each step when it happens; whether all of it held: the receipt, its settlement, and what moved on the chain. */
export async function runPaidJob(coordinator: Coordinator, lab: LabProcess, { title, job }: FirstJob, width: number, signal: AbortSignal): Promise<boolean> {
  const { instance, url } = coordinator;
  const [payer, payee] = [lab.payer(instance), lab.payTo[instance]];
  const balances = () => Promise.all([lab.balanceOf(payer), lab.balanceOf(payee)]);
  const before = await balances();
  let asked = 0n;
  const router = new ComputeRouter({
    baseUrl: url,
    pollInterval: 100,
    maxPrice: MAX_PRICE,
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      if (response.status === 201) tell("201", `the job is taken${response.headers.has("payment-response") ? ", its payment settled" : ", its payment held"}`);
      return response;
    },
    payment: async (challenge, { header }) => {
      const [offer] = challenge.accepts;
      asked = BigInt(offer?.amount ?? 0);
      tell("402", `${title} costs ${offer?.price ?? "?"}: ${terms(challenge)}`);
      const signed = await lab.sign(header ?? "");
      tell("pay", `${short(signed.payer)} signs it, and the commit is sent again with header PAYMENT-SIGNATURE`);
      return { "PAYMENT-SIGNATURE": signed.value };
    },
  });
  try {
    const result = await router.run(job, { signal });
    const by = answeredBy(result);
    const model = by === null ? "" : `   (${by})`;
    tell("result", `${shortened(result.output, width - LABEL - model.length)}${model}`);
    tell("receipt", result.verified ? `verified, signed by ${result.receipt?.provider_pubkey.slice(0, 8)}…` : "NOT verified");
    const transaction = result.receipt?.payment_ref ?? null;
    tell("settled", transaction === null ? "NOT settled" : `by transaction ${transaction}`);
    const after = await balances();
    tell("payer", `${short(payer)}  ${dollars(before[0])} → ${dollars(after[0])}`);
    tell("payee", `${short(payee)}  ${dollars(before[1])} → ${dollars(after[1])}`);
    const moved = asked > 0n && before[0] - after[0] === asked && after[1] - before[1] === asked;
    if (!moved) tell("", `NOT what was asked for: ${dollars(asked)}`);
    return result.verified && transaction !== null && moved;
  } catch (error) {
    if (signal.aborted) throw error;
    tell("FAILED", error instanceof Error ? error.message : String(error));
    return false;
  }
}

const LABEL = 9;

function tell(label: string, text: string): void {
  console.log(`  ${label.padEnd(LABEL)}${untrusted(text)}`);
}

function terms({ accepts: [offer] }: PaymentChallenge): string {
  if (offer === undefined) return "no offer";
  return `${offer.amount} of ${offer.asset === undefined ? "the network's USDC" : short(offer.asset)} to ${short(offer.payTo)} on ${offer.network}`;
}

function short(address: string): string {
  return address.length <= 14 ? address : `${address.slice(0, 8)}…${address.slice(-4)}`;
}

function dollars(millionths: bigint): string {
  return `$${millionths / DOLLAR}.${String(millionths % DOLLAR).padStart(6, "0")}`;
}
