import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../../..");
const { exports: entries }: { exports: Record<string, string | { types: string; default: string }> } = JSON.parse(
  readFileSync(resolve(ROOT, "package.json"), "utf8"),
);

/** Names that each entry of the package exports: `values` exist at run time (a schema's type has the name of its schema), `types` do not. */
const PUBLIC: Record<string, { values: string; types: string }> = {
  ".": {
    values: `BadRequestError ComputeRouter ComputeRouterError ConflictError FallbackError InvalidOptionError JobFailedError JobTimeoutError
      NoEligibleWorkerError NoSuchModelError NoTrustedWorkerError NotFoundError PairingExpiredError PaymentLimitError PaymentRequiredError ProtocolError RateLimitedError
      ReceiptError RouterConnectionError UnavailableError UnexpectedOutputError fingerprintOf openaiCompatible verifyReceipt`,
    types: `AnswerOptions CancelOptions Cancellation ChatMessage Classification ClientOptions CommitOptions Credit ErrorDetails Extraction FallbackProvider
      FallbackResult GetOptions Health Instance Job JobEvent JobHandle JobInput JobList JobOutput JobStatus JobStream JobSummary JobType JobsOptions JobsPage LlmJob LlmOptions LocalJob MapOptions
      MapResult Model ModelList OpenAiCompatibleOptions Paired PairedWorker PairingClaimInput PairingCode PairingOffer PairingWaitOptions PaymentAttempt
      PaymentChallenge PaymentHook PaymentOption Policy Privacy Quote QuoteOptions Receipt ReceiptCheck RequestOptions ResolvedPolicy ResponseFormat
      RouterResult RunOptions RunResult StreamOptions Summary TaskJob TaskType Trust TrustList Usage Verification WaitOptions`,
  },
  "./protocol": {
    values: `CLIENT CLOSE COORDINATOR_FRAMES Challenge ChatCompletionRequest CommitRequest CommitResponse CompletionRequest Drain Drained ErrorBody ErrorFrame FailureCause HEARTBEAT HEARTBEAT_ACK
      Health Heartbeat HeartbeatAck Job JobAck JobAssign JobCancel JobComplete JobCompleteAck JobFailed JobPage JobProgress JobReject JobStatus JobSummary JobType
      JobsQuery LIMITS
      LlmPayload MAX_WAIT_SECONDS Model ModelList NoSuchModel NoTrustedWorker OpenAiError Paired PairingClaim PairingCode PairingCreate PaymentRequired
      PaymentRequirement
      Policy
      PrivacyClass Quote QuoteQuery RATES REFUSALS RETENTION RETRY_AFTER Receipt ReceiptFields Register RegisterAck ResolvedPolicy TIMING TaskPayload
      TaskType Tier TierChange TrustList UserId WORKER_FRAMES WorkerFailure pairText registerText`,
    types: "ClaimRefusal CompletionRefusal CoordinatorFrame Refusal RegisterRefusal WorkerFrame",
  },
  "./receipt": {
    values: "canonicalize fingerprintOf keyPair outputHash receiptText signReceipt signText verifyReceipt verifyText",
    types: "KeyPair Receipt ReceiptCheck ReceiptFields",
  },
  "./x402": {
    values: "MONAD_TESTNET_USDC SOLANA_DEVNET_USDC createPayment paymentHeaders readPaymentRequired spendControlsFor",
    types: "HeadersLike Payment PaymentSigner PaymentTerms PaymentToken RequiredPayment SpendOptions",
  },
  "./evm": { values: "MONAD_TESTNET_USDC evmSigner payWithEvm", types: "EvmAccount PaymentToken SpendLimit TransferTypedData" },
  "./svm": { values: "SOLANA_DEVNET_USDC payWithSvm svmSigner", types: "PaymentToken SpendLimit SvmOptions SvmSigner" },
};

/** The source of an entry of the package. */
function sourceOf(entry: string): string {
  const target = entries[entry];
  if (target === undefined || typeof target === "string") throw new Error(`${entry} has no types`);
  return resolve(ROOT, target.default.replace(/^\.\/dist\/(.*)\.js$/, "src/$1.ts"));
}

/** The names that only the types of an entry have, read from its source. */
function typesOf(source: string): string[] {
  const declared = [...source.matchAll(/^export (?:type|interface) (\w+)/gm)].map(([, name = ""]) => name);
  const lists = [...source.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, type, list = ""]) => {
    const names = list.split(",").map((name) => name.trim());
    return type === undefined ? names.filter((name) => name.startsWith("type ")).map((name) => name.slice(5)) : names;
  });
  return [...declared, ...lists].filter((name) => name !== "");
}

function words(text: string): string[] {
  return text.split(/\s+/);
}

it("every entry of the package is listed here", () => {
  expect(
    Object.keys(entries)
      .filter((entry) => !entry.endsWith(".json"))
      .toSorted(),
  ).toEqual(Object.keys(PUBLIC).toSorted());
});

describe.each(Object.entries(PUBLIC))("the entry %s", (entry, { values, types }) => {
  it("exports exactly these values", async () => {
    const module: Record<string, unknown> = await import(sourceOf(entry));
    expect(Object.keys(module).toSorted()).toEqual(words(values));
  });

  it("exports exactly these types", () => {
    const source = readFileSync(sourceOf(entry), "utf8");
    expect(source).not.toMatch(/^export \*/m);
    expect(typesOf(source).toSorted()).toEqual(words(types));
  });
});
