// Writes docs/supported.md: which client works where jobs are free, and which one pays on which chain, whole and streamed. Each cell names the test that shows
// it, and a unit test checks that these tests exist. With `--check` it fails if the file differs.
import { readFileSync, writeFileSync } from "node:fs";

/** A test that shows a cell: its file below test/, its title, and what the file must have too, because one title may stand for several clients or chains. */
export type Proof = { file: string; title: string; marks: readonly string[] };

/** What a client was shown to do, for a whole answer and for a streamed one. */
type Shown = { whole?: Proof; streamed?: Proof };

/** A client, and what it was shown to do where jobs are free, and paid on each instance. */
export type Row = { client: string; pays: string; free: Shown; evm: Shown; svm: Shown };

const BOTH = 'describe.each(["evm", "svm"]';
const PLACES = ["free", "evm", "svm"] as const satisfies readonly (keyof Row)[];
const WAYS = ["whole", "streamed"] as const satisfies readonly (keyof Shown)[];

const by = (file: string, title: string, ...marks: string[]): Proof => ({ file, title, marks });
const quick = (title: string, ...marks: string[]): Proof => by("payment/router/quickstart.test.ts", title, ...marks);

const OPENAI: Shown = {
  whole: by("payment/router/openai.test.ts", "[API9] pays FAST's price for a chat, and gets the settlement with the answer", BOTH),
  streamed: by("payment/router/openai.test.ts", "[API9] pays for a stream in the same way", BOTH),
};
const PACKAGE = "`@x402/fetch` as its `fetch`";

/** A framework that is used through OpenAI's API. */
function framework(client: string, free: Shown): Row {
  const shown = (title: string): Proof => by("payment/router/frameworks.test.ts", title, "Object.entries(FRAMEWORKS)", BOTH);
  const paid: Shown = { whole: shown("[API9] pays FAST's price for a text"), streamed: shown("[API9] pays FAST's price for a stream") };
  return { client, pays: PACKAGE, free, evm: paid, svm: paid };
}

const RUN_CLI = by("e2e/stream.test.ts", "`run --stream` prints it as it comes; `--json` prints the result and nothing before");
const PAID_SDK = by("payment/sdk/paying.test.ts", "[PY1] [PY4] %s: 402, paid, result verified, and exactly the price moved", BOTH);
const PAID_SDK_STREAM = by("payment/sdk/paying.test.ts", "[PY1] [API6] a stream pays as a run does", BOTH);
const PAID_CLI = by("payment/sdk/paying.test.ts", "[PY1] the CLI pays with --payer, within --max-price, and says how without it", BOTH);
const PAID_X402 = by("payment/sdk/paying.test.ts", "[PY2] [PY4] %s pays this coordinator: 402, 201 with the settlement, and the result", BOTH);
const PAID_WEB = by(
  "payment/sdk/web.test.ts",
  "[PY1] [PY4] 402, paid, completed, receipt verified, exactly the price moved, and nothing of Node was there",
  BOTH,
);
const PAID_MCP = by(
  "payment/sdk/mcp.test.ts",
  "[PY1] a call pays exactly its price; the call that does not fit any more is refused before anything is paid, a cheaper one still fits",
  BOTH,
);
const README = by("e2e/readme.test.ts", "each answers as it says, run in order", 'shareCoordinator("evm")', "/v1/jobs/$JOB_ID/events");
const SNIPPET = (name: string): Proof => quick("[API9] the snippet of %s", `["${name}", `);
const NO_SNIPPET = quick("[API9] what the snippets do not show: a whole answer of the AI SDK, and a stream of LangChain");

/** Every client that a test shows. */
export const ROWS: readonly Row[] = [
  {
    client: "`openai` (JavaScript)",
    pays: PACKAGE,
    free: {
      whole: SNIPPET("OpenAI's package"),
      streamed: by("payment/router/openai-client.test.ts", "[WS10] is whole when its worker's connection is cut and comes back"),
    },
    evm: OPENAI,
    svm: OPENAI,
  },
  framework("AI SDK, `@ai-sdk/openai-compatible`", { whole: NO_SNIPPET, streamed: SNIPPET("the AI SDK") }),
  framework("LangChain, `@langchain/openai`", { whole: SNIPPET("LangChain"), streamed: NO_SNIPPET }),
  {
    client: "Python, `urllib`",
    pays: "no",
    free: { whole: quick("[API9] Python, whole"), streamed: quick("[API9] Python, as a stream") },
    evm: {},
    svm: {},
  },
  {
    client: "MCP host, `compute-router mcp`",
    pays: "`--payer`",
    free: {
      whole: by("e2e/mcp.test.ts", "infer: our words about the job in one block, the worker's text in the next, and a receipt that verify_receipt checks"),
      streamed: by("e2e/mcp.test.ts", "the progress of a job arrives while it runs, without the worker's text"),
    },
    evm: { whole: PAID_MCP },
    svm: { whole: PAID_MCP },
  },
  {
    client: "`compute-router` (SDK) in Node",
    pays: "`payWithEvm`, `payWithSvm`",
    free: {
      whole: by("e2e/jobs.test.ts", "[JB7, RC1] an LLM_INFER job gives real tokens of a real model, with a receipt that holds"),
      streamed: by("e2e/stream.test.ts", "[API6, WS9] is there while it is being written"),
    },
    evm: { whole: PAID_SDK, streamed: PAID_SDK_STREAM },
    svm: { whole: PAID_SDK, streamed: PAID_SDK_STREAM },
  },
  {
    client: "`compute-router` (SDK) outside of Node",
    pays: "`payWithEvm`, `payWithSvm`",
    free: {
      whole: by("e2e/examples.test.ts", "[JB13] examples/cloudflare-worker.mjs summarizes what is posted to it, and cancels the job of a visitor who leaves"),
      streamed: by("e2e/examples.test.ts", "shows the answer, and its second button cancels the job [JB13]"),
    },
    evm: { whole: PAID_WEB },
    svm: { whole: PAID_WEB },
  },
  {
    client: "`compute-router run`, `task`",
    pays: "`--payer`",
    free: { whole: RUN_CLI, streamed: RUN_CLI },
    evm: { whole: PAID_CLI },
    svm: { whole: PAID_CLI },
  },
  { client: "`@x402/fetch` 2.3, 2.20, 2.27; `@x402/axios` 2.11", pays: "itself", free: {}, evm: { whole: PAID_X402 }, svm: { whole: PAID_X402 } },
  { client: "curl", pays: "no", free: { whole: README, streamed: README }, evm: {}, svm: {} },
];

/** Every proof of the table with its cell. */
export function proofs(): { cell: string; proof: Proof }[] {
  return ROWS.flatMap((row) =>
    PLACES.flatMap((place) => WAYS.flatMap((way) => row[place][way] ?? []).map((proof) => ({ cell: `${row.client} ${place}`, proof }))),
  );
}

function table(): string {
  const rows = ROWS.map((row) => {
    const cells = PLACES.flatMap((place) => WAYS.map((way) => (row[place][way] === undefined ? " " : "yes")));
    return `| ${[row.client, row.pays, ...cells].join(" | ")} |`;
  });
  const shown = ROWS.map((row) => {
    const named = [...new Set(PLACES.flatMap((place) => WAYS.flatMap((way) => row[place][way] ?? [])).map(({ file, title }) => `  - \`${file}\` › ${title}`))];
    return `- ${row.client}\n${named.join("\n")}`;
  });
  return `# Supported

Which client works where jobs are free, and which one pays on which instance, for a whole answer and for a streamed one. Where jobs are free, the network's name is all that a
client sees of the instance (\`conformance/instances/svm.test.ts\`), so these tests run on one. \`evm\` is paid by x402, scheme \`exact\`, with an EIP-3009 authorization; \`svm\`
by x402, scheme \`exact\`, with an SPL transfer. "yes" means that a test does it against a real coordinator, and against real local chains if it is paid. An empty cell means that no test does: it may work
anyway. \`node scripts/supported.ts\` writes this page.

| Client | Pays by | free | free, streamed | evm paid | evm paid, streamed | svm paid | svm paid, streamed |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}

For an MCP host, "streamed" are the progress notifications.

## Shown by

Files below \`test/\`. A unit test checks that each of these tests exists.

${shown.join("\n")}
`;
}

if (import.meta.main) {
  const file = new URL("../docs/supported.md", import.meta.url);
  if (!process.argv.includes("--check")) writeFileSync(file, table());
  else if (readFileSync(file, "utf8") !== table()) {
    console.error("docs/supported.md is not what scripts/supported.ts says: run `node scripts/supported.ts`");
    process.exitCode = 1;
  }
}
