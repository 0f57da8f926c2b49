// A coordinator for worker tests: a real WebSocket server that does what the test says.
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import { atTheEnd } from "./ends.ts";
import { HEARTBEAT, HEARTBEAT_ACK } from "../../../../src/protocol/worker-messages.ts";

type Frame = Record<string, unknown>;

/** A real WebSocket server on loopback that speaks the coordinator's side of the protocol as a test tells it to. */
export class FakeCoordinator {
  readonly #dialled = queue<Connection>();
  readonly url: string;
  readonly host: string;
  readonly network: string;
  /** Off: heartbeats are not answered. */
  heartbeats = true;

  /** What its clock shows more than this machine's, in ms. */
  clockAhead = 0;

  /** Workers that take LLM jobs, as it tells them at `/v1/models`; null: it is of a version without that. */
  llmWorkers: number | null = null;
  readonly #port: number;
  #server: Server;
  #sockets: WebSocketServer;

  private constructor(server: Server, port: number, network: string) {
    this.#server = server;
    this.#sockets = this.#answerAt(server);
    this.#port = port;
    this.host = `127.0.0.1:${port}`;
    this.url = `ws://${this.host}/`;
    this.network = network;
  }

  #answerAt(server: Server): WebSocketServer {
    server.on("request", (request, response) => {
      const isHealth = request.url === "/v1/health";
      if (request.url === "/v1/models" && this.llmWorkers !== null)
        return response
          .writeHead(200, { "content-type": "application/json" })
          .end(JSON.stringify({ object: "list", data: [], workers_online: this.llmWorkers }));
      const health = { status: "ok", workers_online: 0, network: this.network, timestamp: new Date(Date.now() + this.clockAhead).toISOString() };
      response.writeHead(isHealth ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(isHealth ? health : { error: "not_found" }));
    });
    return new WebSocketServer({ server }).on("connection", (socket) => this.#dialled.put(new Connection(socket, this)));
  }

  /** Dies: every socket breaks without a close frame, and nobody listens any more. */
  async stop(): Promise<void> {
    for (const client of this.#sockets.clients) client.terminate();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Comes back at the same address. */
  async restart(): Promise<void> {
    this.#server = createServer();
    this.#sockets = this.#answerAt(this.#server);
    await once(this.#server.listen(this.#port, "127.0.0.1"), "listening");
  }

  static async start(network = "eip155:10143"): Promise<FakeCoordinator> {
    const server = createServer();
    await once(server.listen(0, "127.0.0.1"), "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const coordinator = new FakeCoordinator(server, address.port, network);
    atTheEnd(() => coordinator.stop());
    return coordinator;
  }

  /** The next worker that dials; none has said a word yet. */
  dialled(): Promise<Connection> {
    return this.#dialled.take();
  }

  /** The next worker that dials, challenged and registered; `register` is what it said. */
  async registered(): Promise<{ worker: Connection; register: Frame; nonce: string }> {
    const worker = await this.dialled();
    const nonce = worker.challenge();
    const register = await worker.receive("register");
    worker.acknowledgeRegistration();
    return { worker, register, nonce };
  }
}

/** One worker's socket, seen from the coordinator. */
export class Connection {
  readonly #socket: WebSocket;
  readonly #coordinator: FakeCoordinator;
  readonly #frames = queue<Frame>();
  readonly closed: Promise<number>;
  heartbeats = 0;
  #registered = false;

  constructor(socket: WebSocket, coordinator: FakeCoordinator) {
    this.#socket = socket;
    this.#coordinator = coordinator;
    const closed = Promise.withResolvers<number>();
    this.closed = closed.promise;
    socket.on("close", (code) => closed.resolve(code));
    socket.on("message", (data) => this.#heard(Buffer.isBuffer(data) ? data.toString("utf8") : ""));
  }

  send(frame: Frame | string): void {
    this.#socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
  }

  challenge(host = this.#coordinator.host): string {
    const nonce = randomBytes(32).toString("hex");
    this.send({ type: "challenge", nonce, network: this.#coordinator.network, host });
    return nonce;
  }

  acknowledgeRegistration(): void {
    this.#registered = true;
    this.send({ type: "register_ack", status: "ok", worker_id: randomUUID(), authenticated: true, tier: "Open", heartbeat_interval_ms: 10_000 });
  }

  assign(over: Frame = {}): { job_id: string; attempt: number } {
    const job = {
      type: "job_assign",
      job_id: randomUUID(),
      job_type: "TASK",
      payload: { job_type: "TASK", task_type: "classify", input: "What a wonderful day" },
      policy: "CHEAP",
      privacy_class: "PUBLIC",
      attempt: 1,
      deadline: new Date(Date.now() + 170_000).toISOString(),
      ...over,
    };
    this.send(job);
    return job;
  }

  /** The next frame of this type; others on the way to it are an error unless they are of a `skip` type. */
  async receive(type: string, ...skip: string[]): Promise<Frame> {
    for (;;) {
      const frame = await this.#frames.take();
      if (frame["type"] === type) return frame;
      if (!skip.includes(String(frame["type"]))) throw new Error(`expected ${type}, got ${JSON.stringify(frame)}`);
    }
  }

  /** The next frame, of any type. */
  next(): Promise<Frame> {
    return this.#frames.take();
  }

  /** The next result, which is accepted: the worker sends again what nobody has acknowledged. */
  async completed(...skip: string[]): Promise<Frame> {
    const complete = await this.receive("job_complete", ...skip);
    this.send({ type: "job_complete_ack", job_id: complete["job_id"], status: "accepted" });
    return complete;
  }

  close(code: number): void {
    this.#socket.close(code);
  }

  /** The network fails: no close frame. */
  cut(): void {
    this.#socket.terminate();
  }

  #heard(text: string): void {
    if (text !== HEARTBEAT) return this.#frame(JSON.parse(text));
    this.heartbeats++;
    if (this.#coordinator.heartbeats) this.send(HEARTBEAT_ACK);
  }

  /** A registered worker's announcement of a change is answered at once [WS3]: an unanswered one would come again. */
  #frame(frame: Frame): void {
    this.#frames.put(frame);
    if (frame["type"] === "register" && this.#registered) this.acknowledgeRegistration();
  }
}

function queue<T>(): { put: (item: T) => void; take: () => Promise<T> } {
  const items: T[] = [];
  const takers: ((item: T) => void)[] = [];
  return {
    put: (item) => {
      const taker = takers.shift();
      if (taker === undefined) items.push(item);
      else taker(item);
    },
    take: () => {
      const item = items.shift();
      return item === undefined ? new Promise((resolve) => takers.push(resolve)) : Promise.resolve(item);
    },
  };
}
