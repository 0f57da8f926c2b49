// Writes docs/supported.md: which client works on which chain, free and paid, whole and streamed. Each cell names the test that shows it, and a unit test
// checks that these tests exist. With `--check` it fails if the file differs.
import { readFileSync, writeFileSync } from "node:fs";

/** A test that shows a cell: its file below test/, its title, and what the file must have besides, because one title may stand for several clients or chains. */
export type Proof = { file: string; title: string; marks: readonly string[] };

/** What a client was shown to do on one instance. */
type Side = { free?: Proof; freeStream?: Proof; paid?: Proof; paidStream?: Proof };

/** A client, and what it was shown to do. */
export type Row = { client: string; pays: string; evm: Side; svm: Side };

const BOTH = 'describe.each(["evm", "svm"]';
const COLUMNS = ["free", "freeStream", "paid", "paidStream"] as const satisfies readonly (keyof Side)[];

const by = (file: string, title: string, ...marks: string[]): Proof => ({ file, title, marks });

/** A client of OpenAI's API, as `FRAMEWORKS` of the test names it. */
function framework(client: string, key: string): Row {
  const shown = (title: string): Proof => by("payment/router/frameworks.test.ts", title, `${key}: {`, BOTH);
  const side: Side = {
    free: shown("[API9] gets a text where jobs are free"),
    freeStream: shown("[API9] gets a stream where jobs are free"),
    paid: shown("[API9] pays FAST's price for a text"),
    paidStream: shown("[API9] pays FAST's price for a stream"),
  };
  return { client, pays: "`@x402/fetch` as its `fetch`", evm: side, svm: side };
}

const STREAM_CLI = by("e2e/stream.test.ts", "`run --stream` prints it as it comes; `--json` prints the result and nothing before");
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
const START = by(
  "e2e/start.test.ts",
  "brings up both instances with a worker each, runs a verified job of every kind on both, stays up with a banner until Ctrl-C, and then leaves no child behind",
);

const QUICK = 'describe.each(["evm", "svm"] as const)("the quick starts';
const quick = (title: string): Proof => by("payment/router/quickstart.test.ts", title, QUICK);
const PYTHON: Side = { free: quick("[API9] Python, whole"), freeStream: quick("[API9] Python, as a stream") };
const RUN = quick("the command line runs a job %s");

/** Every client that a test shows. */
export const ROWS: readonly Row[] = [
  framework("`openai` (JavaScript)", "openai"),
  framework("AI SDK, `@ai-sdk/openai-compatible`", '"AI SDK"'),
  framework("LangChain, `@langchain/openai`", "LangChain"),
  {
    client: "Python, `urllib`",
    pays: "no",
    evm: PYTHON,
    svm: PYTHON,
  },
  {
    client: "MCP host, `compute-router mcp`",
    pays: "`--payer`",
    evm: {
      free: by("e2e/mcp.test.ts", "infer: our words about the job in one block, the worker's text in the next, and a receipt that verify_receipt checks"),
      freeStream: by("e2e/mcp.test.ts", "the progress of a job arrives while it runs, without the worker's text"),
      paid: PAID_MCP,
    },
    svm: { free: quick("an agent: the configuration starts a server with our tools"), paid: PAID_MCP },
  },
  {
    client: "`compute-router` (SDK) in Node",
    pays: "`payWithEvm`, `payWithSvm`",
    evm: {
      free: by("e2e/jobs.test.ts", "[JB7, RC1] an LLM_INFER job gives real tokens of a real model, with a receipt that holds"),
      freeStream: by("e2e/stream.test.ts", "[API6, WS9] is there while it is being written"),
      paid: PAID_SDK,
      paidStream: PAID_SDK_STREAM,
    },
    svm: { free: START, freeStream: quick("[API6] the stream of docs/sdk.md"), paid: PAID_SDK, paidStream: PAID_SDK_STREAM },
  },
  {
    client: "`compute-router` (SDK) outside of Node",
    pays: "`payWithEvm`, `payWithSvm`",
    evm: {
      free: by("e2e/examples.test.ts", "examples/cloudflare-worker.mjs summarizes what is posted to it"),
      freeStream: by("e2e/examples.test.ts", "shows the answer, and its second button cancels the job [JB13]"),
      paid: PAID_WEB,
    },
    svm: { paid: PAID_WEB },
  },
  {
    client: "`compute-router run`, `task`",
    pays: "`--payer`",
    evm: { free: STREAM_CLI, freeStream: STREAM_CLI, paid: PAID_CLI },
    svm: { free: RUN, freeStream: RUN, paid: PAID_CLI },
  },
  { client: "`@x402/fetch` 2.3, 2.20, 2.27; `@x402/axios` 2.11", pays: "itself", evm: { paid: PAID_X402 }, svm: { paid: PAID_X402 } },
  { client: "curl", pays: "no", evm: { free: README, freeStream: README }, svm: { free: quick("[API6] curl gets the finished job with its receipt") } },
];

/** Every proof of the table with its cell. */
export function proofs(): { cell: string; proof: Proof }[] {
  return ROWS.flatMap((row) =>
    (["evm", "svm"] as const).flatMap((side) =>
      COLUMNS.flatMap((column) => row[side][column] ?? []).map((proof) => ({ cell: `${row.client} ${side}`, proof })),
    ),
  );
}

function table(): string {
  const cells = (side: Side): string[] => COLUMNS.map((column) => (side[column] === undefined ? " " : "yes"));
  const rows = ROWS.map(({ client, pays, evm, svm }) => `| ${[client, pays, ...cells(evm), ...cells(svm)].join(" | ")} |`);
  const shown = ROWS.map(({ client, evm, svm }) => {
    const named = [
      ...new Set([evm, svm].flatMap((side) => COLUMNS.flatMap((column) => side[column] ?? [])).map(({ file, title }) => `  - \`${file}\` › ${title}`)),
    ];
    return `- ${client}\n${named.join("\n")}`;
  });
  return `# Supported

Which client works on which instance, where jobs are free and where they are paid, for a whole answer and for a streamed one. \`evm\` is paid by x402, scheme \`exact\`, with an EIP-3009 authorization; \`svm\`
by x402, scheme \`exact\`, with an SPL transfer. "yes" means that a test does it against a real coordinator, and against real local chains if it is paid. An empty cell means that no test does: it may work
all the same. \`node scripts/supported.ts\` writes this page.

| Client | Pays by | evm free | evm free, streamed | evm paid | evm paid, streamed | svm free | svm free, streamed | svm paid | svm paid, streamed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
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
