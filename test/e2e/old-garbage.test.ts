// The heap of a coordinator: garbage that has become old does not stay. workerd keeps memory of its own for it, which V8 does not count.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { freePort, startCoordinator } from "../../scripts/coordinator-process.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";

/** Each request makes 10 MB of garbage and holds a tenth of it so long that it becomes old, as what belongs to a request does. */
const PROGRAM = `
  import { DurableObject } from "cloudflare:workers";
  export class WorkerHub extends DurableObject {}
  const held = new Array(1_000);
  let made = 0;
  let old = [];
  export default {
    async fetch(request) {
      if (!request.url.endsWith("/work")) return new Response("ok");
      for (let i = 0; i < 5_000; i++) {
        const object = new Array(500).fill(i);
        if (i % 10 > 0) continue;
        held[made % held.length] = object;
        if (made++ % 10 === 0) old.push(new WeakRef(object));
      }
      for (let i = 0; i < 20; i++) await new Response("x").text();
      old = old.filter((reference) => reference.deref() !== undefined);
      return Response.json({ made, alive: old.length * 10 });
    },
  };
`;
const KIB_EACH = 2;
const ROUNDS = 160;
const Answer = z.strictObject({ made: z.int(), alive: z.int() });

describe("the heap of a coordinator", () => {
  it("[LM1] old garbage is collected before it is 40 MiB", async () => {
    const stateDir = temporaryFolder("old-garbage");
    const bundle = join(stateDir, "program.js");
    writeFileSync(bundle, PROGRAM);
    const coordinator = await startCoordinator({ instance: "evm", port: await freePort(), stateDir, bundle, serves: true });
    finallyDo(() => coordinator.stop());

    let most = 0;
    let made = 0;
    for (let n = 0; n < ROUNDS; n++) {
      const answer = Answer.parse(await (await fetch(`${coordinator.url}/work`)).json());
      most = Math.max(most, answer.alive);
      ({ made } = answer);
    }
    expect((made * KIB_EACH) / 1_024).toBeGreaterThan(150);
    expect((most * KIB_EACH) / 1_024).toBeLessThan(40);
  });
});
