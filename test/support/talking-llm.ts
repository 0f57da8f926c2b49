// A fake Ollama whose model says what the test wants.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { finallyDo } from "./finally.ts";
import { until } from "./until.ts";

/** A server with the APIs of Ollama that a worker uses, whose one model says what the test tells it to, when it tells it to. */
export class TalkingLlm {
  readonly url: string;
  /** Says this to every prompt, at once; null: it waits for the test. */
  says: string | null = null;
  /** Every prompt fails, as with a model that does not fit. */
  fails = false;
  /** It answers nothing: each connection is cut. */
  gone = false;
  /** How many prompts it got, first ones to load the model left out. */
  prompts = 0;
  #answer: ServerResponse | null = null;

  private constructor(url: string) {
    this.url = url;
  }

  /** Ended after the tests of this file. */
  static async start(): Promise<TalkingLlm> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    finallyDo(() => {
      server.closeAllConnections();
      server.close();
    });
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const llm = new TalkingLlm(`http://127.0.0.1:${address.port}/v1`);
    server.on("request", (request, response) => void llm.#serve(request, response));
    return llm;
  }

  /** Resolves once the model has been asked. */
  async asked(): Promise<void> {
    await until("prompt", () => this.#answer ?? undefined);
  }

  say(text: string): void {
    this.#answer?.write(chunk(text));
  }

  finish(): void {
    this.#answer?.end(`${chunk("", "stop")}data: [DONE]\n\n`);
    this.#answer = null;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.gone) request.socket.destroy();
    else if (request.url?.endsWith("/models") === true) {
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ object: "list", data: [{ id: "talker", object: "model", owned_by: "library" }] }));
    } else if (request.url === "/api/version") {
      response.writeHead(200, { "content-type": "application/json" }).end('{"version":"0.12.3"}');
    } else if (request.url?.endsWith("/chat/completions") === true && this.fails) {
      const error = { message: "model requires more system memory: out of memory", type: "api_error", param: null, code: null };
      response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify({ error }));
    } else if (request.url?.endsWith("/chat/completions") === true) {
      const body = JSON.stringify(await json(request));
      response.writeHead(200, { "content-type": "text/event-stream" });
      // The worker warms a model up before it is of use.
      if (body.includes('"max_tokens":1,')) return void response.end(`${chunk("Hi", "stop")}data: [DONE]\n\n`);
      this.prompts++;
      this.#answer = response;
      if (this.says === null) return;
      this.say(this.says);
      this.finish();
    } else response.writeHead(404).end();
  }
}

function chunk(content: string, finish: string | null = null): string {
  return `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;
}
