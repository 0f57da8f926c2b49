// Answers the short requests that the front outside Cloudflare (scripts/front.ts) sends on one socket, inside the hub: a request and an RPC of its own cost
// workerd as much as all that the coordinator does with it (docs/decisions/0019). On Cloudflare there is no such socket.
import { timingSafeEqual } from "node:crypto";
import { KiB } from "../../protocol/limits.ts";
import { errorFacts, logError } from "../log.ts";
import { CHANNEL_KEY_HEADER, type SharedAnswer, type SharedRequest } from "./shared-messages.ts";
import { ShortRequest, ShortResponse } from "./short-http.ts";

/** A longer answer to a poll is not sent. A commit that waited gets any answer, because it cannot be made again. */
export const LONGEST_POLL = 64 * KiB;
/** So many characters are sent at once, so that small answers need not wait for many large ones. */
const MESSAGE_CHARS = 256 * KiB;

/** True for a request that opens a channel. `key` is unset on Cloudflare: there nothing opens one. */
export function opensChannel(request: Request, key: unknown): boolean {
  const given = Buffer.from(request.headers.get(CHANNEL_KEY_HEADER) ?? "");
  if (given.length === 0 || typeof key !== "string") return false;
  const wanted = Buffer.from(key);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** Opens a channel whose requests `respond` answers; it must not reject. Returns the answer that switches to WebSocket. */
export function openChannel(respond: (request: Request) => Response | Promise<Response>): Response {
  const { 0: front, 1: hub } = new WebSocketPair();
  const answers: SharedAnswer[] = [];
  let chars = 0;
  const flush = (): void => {
    if (answers.length === 0) return;
    const message = JSON.stringify(answers.splice(0));
    chars = 0;
    // The front has closed the channel or has ended: nobody waits for these answers.
    if (hub.readyState === WebSocket.OPEN) hub.send(message);
  };
  const answer = async ([id, method, url, headers, body]: SharedRequest): Promise<void> => {
    let answered: SharedAnswer;
    try {
      const response: Response | ShortResponse = await respond(ShortRequest.of({ method, url, headers, body }));
      const text = response instanceof ShortResponse ? response.body : await response.text();
      answered = body === null && text.length > LONGEST_POLL ? [id, 0, [], ""] : [id, response.status, [...response.headers], text];
    } catch (error) {
      logError("internal_error", { method, ...errorFacts(error) });
      answered = [id, 500, [["content-type", "application/json"]], '{"error":"internal_error"}'];
    }
    // The answers of one turn go together.
    if (answers.push(answered) === 1) setTimeout(flush, 0);
    chars += answered[3].length;
    if (chars > MESSAGE_CHARS) flush();
  };
  hub.accept();
  hub.addEventListener("message", ({ data }) => {
    const requests: SharedRequest[] = JSON.parse(String(data));
    for (const request of requests) void answer(request);
  });
  hub.addEventListener("close", () => hub.close());
  return new Response(null, { status: 101, webSocket: front });
}
