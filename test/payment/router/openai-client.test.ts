// OpenAI's own client while workers come, go, fail and know less than ours: what someone sees who has changed nothing but the base URL [API9, JB10, JB12].
import OpenAI from "openai";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { verifyReceipt } from "../../../src/receipt/index.ts";
import { newIdentity } from "../../conformance/support/identity.ts";
import { type Frame, fullWorker, specWorker, type WorkerSocket } from "../../conformance/support/worker.ts";
import { shareCoordinator } from "../../support/coordinator.ts";
import type { CoordinatorHere } from "../../support/coordinator-here.ts";
import { until } from "../../support/until.ts";

const MESSAGES = [{ role: "user" as const, content: "Say hello." }];
/** What a receipt rides along in. */
type Signed = { compute_router: { job_id: string; receipt: Parameters<typeof verifyReceipt>[0]; attempt: number } };

let free: CoordinatorHere;
let client: OpenAI;

beforeAll(async () => {
  free = await shareCoordinator("evm");
  client = new OpenAI({ baseURL: `${free.url}/v1`, apiKey: "none" });
});
beforeEach(() => online(0));

const health = async (): Promise<{ workers_online: number }> => (await fetch(`${free.url}/v1/health`)).json() as Promise<{ workers_online: number }>;
const online = (count: number) => until(`${count} workers`, async () => ((await health()).workers_online === count ? true : undefined));
const jobOf = async (id: unknown): Promise<{ status: string; result: { output?: string; error?: string } | null }> =>
  (await fetch(`${free.url}/v1/jobs/${id}`)).json() as ReturnType<typeof jobOf>;
const ask = (model: string) => client.chat.completions.create({ model, messages: MESSAGES });
const stream = (messages: OpenAI.ChatCompletionMessageParam[] = MESSAGES) =>
  client.chat.completions.create({ model: "auto", messages, stream: true }).withResponse();
const isAssign = (frame: Frame): boolean => frame.type === "job_assign";

/** A worker that answers each job with the name of its model. */
async function serving(model: string): Promise<WorkerSocket> {
  const worker = await fullWorker(free.socketUrl, { features: ["ack", "chat"], models: [model] });
  const answer = (frame: Frame): void => {
    worker.ack(frame);
    void worker.complete(String(frame.job_id), { finish_reason: "stop", model, output: `I am ${model}.` });
  };
  worker.onAssign = answer;
  worker.frames.filter(isAssign).forEach(answer);
  return worker;
}

/** Reads a stream; `shown` is the text so far. */
function reading(chunks: AsyncIterable<OpenAI.ChatCompletionChunk>) {
  const seen: OpenAI.ChatCompletionChunk[] = [];
  const shown = (): string => seen.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  const read = async (): Promise<void> => {
    for await (const chunk of chunks) seen.push(chunk);
  };
  const shows = (text: string) => until(`"${text}"`, () => (shown() === text ? true : undefined), shown);
  return { seen, shown, shows, end: read() };
}

describe("a model", () => {
  it("[JB10] comes, goes and comes back: its requests go to it alone, and one that came meanwhile waits for it", async () => {
    const ant = await serving("Ant:7b");
    expect((await ask("ant:7B")).model).toBe("Ant:7b");
    const names = async (): Promise<string[]> => (await client.models.list()).data.map(({ id }) => id);
    await until("the model in the list", async () => ((await names()).includes("Ant:7b") ? true : undefined));

    ant.close();
    await online(0);
    const waiting = ask("Ant:7b");
    const bee = await serving("bee");
    expect((await ask("auto")).choices[0]?.message.content).toBe("I am bee.");
    expect((await ask("bee")).choices[0]?.message.content).toBe("I am bee.");
    await until("a list without the model that has left", async () => ((await names()).includes("Ant:7b") ? undefined : true));

    await serving("ant:7B");
    expect((await waiting).choices[0]?.message.content).toBe("I am ant:7B.");
    expect(bee.frames.filter(isAssign)).toHaveLength(2);
  });
});

describe("a stream", () => {
  it("[WS10] is whole when its worker's connection is cut and comes back", async () => {
    const identity = newIdentity();
    const worker = await fullWorker(free.socketUrl, {}, identity);
    const { data, response } = await stream();
    const page = reading(data);
    const assign = await worker.frame("job_assign");
    worker.ack(assign);
    worker.progress(assign, 0, "Hello ");
    await page.shows("Hello ");
    worker.close();
    await online(0);
    const again = await fullWorker(free.socketUrl, { resume: [{ job_id: assign.job_id, attempt: assign.attempt }] }, identity);
    again.progress(assign, 1, "there");
    await page.shows("Hello there");
    await again.complete(String(assign.job_id), "Hello there.");
    await page.end;
    expect(page.shown()).toBe("Hello there.");
    expect(response.headers.get("x-job-id")).toBe(assign.job_id);
    expect(page.seen.at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }], compute_router: { job_id: assign.job_id, attempt: 1 } });
  });

  it("[API9, JB6] ends with an error when another worker finishes it with another text; all of that is at the job", async () => {
    const [one, two] = [await fullWorker(free.socketUrl), await fullWorker(free.socketUrl)];
    const { data, response } = await stream();
    const page = reading(data);
    const assign = await Promise.race([one.frame("job_assign"), two.frame("job_assign")]);
    const [first, second] = one.had(String(assign.job_id)) ? [one, two] : [two, one];
    first.ack(assign);
    first.progress(assign, 0, "Good morn");
    await page.shows("Good morn");
    first.fail(assign, true);
    await second.assigned(String(assign.job_id));
    await second.complete(String(assign.job_id), "Hello there.");
    await expect(page.end).rejects.toMatchObject({ code: "stream_reset" });
    await expect(page.end).rejects.toBeInstanceOf(OpenAI.APIError);
    expect(page.shown()).toBe("Good morn");
    expect(await jobOf(response.headers.get("x-job-id"))).toMatchObject({ status: "completed", result: { output: "Hello there." } });
  });
});

describe("the models", () => {
  it("[API9, JB10] are retrieved one by one, with slashes and colons in their names; one of nobody is OpenAI's model_not_found", async () => {
    const name = "hf.co/acme/Ant-7B:Q4_K_M";
    await serving(name);
    const listed = await until("a list with this model alone, which may be some seconds old", async () => {
      const { data } = await client.models.list();
      return data.length === 1 && data[0]?.id === name ? data : undefined;
    });
    expect(listed).toMatchObject([{ id: name, object: "model", owned_by: "workers", workers: 1 }]);
    for (const id of [name, name.toLowerCase()]) expect(await client.models.retrieve(id)).toEqual(listed[0]);
    // Some clients do not encode the slashes.
    expect(await (await fetch(`${free.url}/v1/models/${name}`)).json()).toEqual(listed[0]);
    const refused = client.models.retrieve("acme/nobody:1b");
    await expect(refused).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(refused).rejects.toMatchObject({ status: 404, code: "model_not_found", type: "invalid_request_error", message: /no connected worker/ });
  });
});

describe("a stranger's worker, written from the specification alone", () => {
  it.each([false, true])("[JB12] answers a chat as a plain prompt, with a receipt that holds (streamed: %s)", async (streams) => {
    const worker = await specWorker(free.socketUrl);
    const messages = [
      { role: "system" as const, content: "Be brief." },
      { role: "user" as const, content: "Say hello." },
      { role: "assistant" as const, content: "Hello." },
      { role: "user" as const, content: "Again." },
    ];
    const options = { model: "auto", messages, temperature: 0, seed: 1, stop: "\n" };
    const asked = streams
      ? (async () => {
          const page = reading(await client.chat.completions.create({ ...options, stream: true }));
          await page.end;
          return { text: page.shown(), signed: page.seen.at(-1) as unknown as Signed };
        })()
      : client.chat.completions.create(options).then((answer) => ({ text: answer.choices[0]?.message.content, signed: answer as unknown as Signed }));
    const assign = await worker.frame("job_assign");
    expect(assign.payload).toMatchObject({ prompt: "System: Be brief.\n\nUser: Say hello.\n\nAssistant: Hello.\n\nUser: Again.\n\nAssistant:" });
    await worker.complete(String(assign.job_id), "Hello again.");
    const { text, signed } = await asked;
    expect(text).toBe("Hello again.");
    expect(signed.compute_router).toMatchObject({ job_id: assign.job_id, attempt: 1 });
    expect(verifyReceipt(signed.compute_router.receipt, { output: "Hello again." })).toEqual({ ok: true });
  });
});
