// A slow LLM server for worker tests: it writes a token every 20 ms.
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { atTheEnd } from "./ends.ts";

const TOKEN_MS = 20;

/** One answer that is on its way. */
export type Answering = {
  prompt: string;
  /** Ends the answer as a runtime does. */
  finish: () => void;
  /** Resolves when the connection is closed; true if that came before the end of the answer. */
  cut: Promise<boolean>;
};

/**
 * An OpenAI-compatible server whose answers go on, a token every 20 ms, until the test ends them. The first prompt of a worker is its warm-up: answered at
 * once.
 */
export class SlowLlm {
  readonly #answers: Answering[] = [];
  #server: Server | null = null;
  #port = 0;
  models = ["slow"];
  /** What it tells of its context; a prompt of more characters is refused. */
  context: number | undefined;
  /** Sent as the text of the answer; the rest is "la ". */
  opening = "<think>hidden</think>";

  static async start(): Promise<SlowLlm> {
    const llm = new SlowLlm();
    await llm.listen();
    atTheEnd(() => llm.kill());
    return llm;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}/v1`;
  }

  /** Comes (back) up, at the same address. */
  async listen(): Promise<void> {
    this.#server = createServer((request, response) => {
      if (request.url === "/v1/models") return answerJson(response, { object: "list", data: this.models.map((id) => ({ id, max_model_len: this.context })) });
      void text(request).then((body) => this.#answer(String(JSON.parse(body).messages[0].content), response));
    });
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    const address = this.#server.address();
    if (address !== null && typeof address === "object") this.#port = address.port;
  }

  /** Dies: every connection breaks, and nobody listens any more. */
  kill(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  /** The answers so far, warm-ups left out. */
  get answers(): readonly Answering[] {
    return this.#answers;
  }

  #answer(prompt: string, response: ServerResponse): void {
    if (this.context !== undefined && prompt.length > this.context) {
      response.writeHead(400, { "content-type": "application/json" });
      return void response.end(JSON.stringify({ error: { message: "too long", type: "exceed_context_size_error" } }));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (content: string, finish: string | null = null) =>
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`);
    const end = () => {
      send("", "stop");
      response.end(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } })}\n\ndata: [DONE]\n\n`);
    };
    if (prompt === "Hi") {
      send("Hi");
      return end();
    }
    send(this.opening);
    const timer = setInterval(() => send("la "), TOKEN_MS);
    const closed = Promise.withResolvers<boolean>();
    response.once("close", () => {
      clearInterval(timer);
      closed.resolve(!response.writableFinished);
    });
    const finish = () => {
      clearInterval(timer);
      send("la ");
      end();
    };
    this.#answers.push({ prompt, finish, cut: closed.promise });
  }
}

function answerJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}
