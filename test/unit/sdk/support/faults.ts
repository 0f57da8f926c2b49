// The faults of a router for the SDK tests: wrong, missing, late and broken answers.
import { ServerResponse } from "node:http";
import { createServer } from "node:net";
import { type Fault, json } from "./router-server.ts";

/** Answers something else. */
export const reply =
  (status: number, body: unknown, headers: Record<string, string> = {}): Fault =>
  (response) =>
    json(response, status, body, headers);

/** Answers a text that is not what its content type says. */
export const garbage =
  (status: number, body: string | Uint8Array): Fault =>
  (response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(body);

/** Never answers. */
export const hang: Fault = () => {};

/** Closes the connection instead of answering. */
export const reset: Fault = (response) => response.socket?.destroy();

/** Breaks off in the middle of an answer. */
export const resetMidBody: Fault = (response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
  response.write('{"status":', () => response.socket?.destroy());
};

/** Starts an answer and never ends it. */
export const hangMidBody: Fault = (response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.write('{"status":');
};

/** Sends for ever. */
export const endless: Fault = (response) => {
  response.writeHead(200, { "content-type": "application/json" });
  const more = (): void => {
    while (!response.destroyed && response.write(" ".repeat(65_536)));
  };
  response.on("drain", more);
  more();
};

/** Does its part and loses the answer. */
export const loseAnswer: Fault = (response, _request, proceed) => {
  // A response on no socket: the router's answer goes nowhere.
  proceed(new ServerResponse(response.req));
  response.socket?.destroy();
};

/** Does its part only when the returned `release` is called. */
export function paused(): { fault: Fault; arrived: Promise<void>; release: () => void } {
  let arrive = (): void => {};
  let release = (): void => {};
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const released = new Promise<void>((resolve) => (release = resolve));
  const fault: Fault = (response, _request, proceed) => {
    arrive();
    void released.then(() => proceed(response));
  };
  return { fault, arrived, release };
}

/** An address where nobody listens. */
export async function closedUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise<unknown>((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}

/** What the tests read of an error; which of it there is depends on its class. */
type Rejection = Error & {
  code: string;
  reason: string;
  jobId: string;
  idempotencyKey: string;
  lastStatus: string;
  accepts: unknown[];
  fallbackErrors: unknown[];
};

/** What a promise rejects with; fails the test if it resolves. */
export async function rejection(promise: Promise<unknown>): Promise<Rejection> {
  return promise.then(
    (value) => {
      throw new Error(`resolved to ${JSON.stringify(value)}`);
    },
    (error: unknown) => error as Rejection,
  );
}
