import type { Connection } from "./connection.ts";
import { NotFoundError, UnavailableError } from "./errors.ts";
import { type WireEvent, wireEvents } from "./job-event.ts";
import { type Limit, sleep } from "./limit.ts";
import type { Settings } from "./options.ts";
import type { Poll } from "./poll.ts";
import { askedPause, backoff, isTransient } from "./retry.ts";

/**
 * Follows a job to its end. An accepted job outlives an outage, so a stream that breaks is opened again after its last event for as long as the
 * limit allows. A router that knows no streams (404) or has none left (503) is polled.
 */
export async function* followJob(connection: Connection, settings: Settings, poll: Poll, limit: Limit): AsyncGenerator<WireEvent, void, undefined> {
  let lastId = "";
  for (let failures = 0; ; failures++) {
    let trouble: unknown;
    try {
      for await (const { id, event } of wireEvents(connection, settings, poll.jobId, lastId, limit)) {
        lastId = id;
        failures = 0;
        if (event.type === "status") poll.saw(event.status);
        yield event;
        if (event.type === "done") return;
      }
    } catch (error) {
      limit.signal.throwIfAborted();
      if (error instanceof NotFoundError || (error instanceof UnavailableError && error.status === 503))
        return yield* polled(connection, settings, poll, limit);
      if (!isTransient(error) && !(error instanceof UnavailableError)) throw error;
      trouble = error;
    }
    await sleep(Math.max(askedPause(trouble), backoff(settings.retry.delay, failures)), limit);
  }
}

async function* polled(connection: Connection, settings: Settings, poll: Poll, limit: Limit): AsyncGenerator<WireEvent, void, undefined> {
  const changes = poll.changes(connection, settings, limit);
  let step = await changes.next();
  for (; step.done !== true; step = await changes.next()) yield { type: "status", status: step.value.status, attempt: null };
  yield { type: "done", job: step.value };
}
