import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";

let evm: Subject;

describe("X-User-Token", () => {
  beforeAll(async () => {
    evm = await start("evm");
  });

  test("[TR2] given at the first create ever, it is needed from then on for create, list and PRIVATE commits", async () => {
    const user = newUser();
    const token = { "x-user-token": "a secret of the user" };
    expect((await evm.api.post("/v1/trust/create", { user_id: user }, token)).status).toBe(201);
    const body = task(user, "x", { privacy_class: "PRIVATE" });
    for (const headers of [{}, { "x-user-token": "another" }]) {
      for (const answer of [
        await evm.api.post("/v1/trust/create", { user_id: user }, headers),
        await evm.api.get(`/v1/trust/list?user_id=${user}`, headers),
        await evm.api.tryCommit(body, "cheap", headers),
      ]) {
        expect(answer.status).toBe(401);
        expect(answer.body).toEqual({ error: "user_token_required" });
      }
    }
    expect((await evm.api.tryCommit({ ...body, payload: {} }, "cheap")).status, "400 comes first").toBe(400);
    expect((await evm.api.tryCommit(body, "cheap", token)).status, "then 422").toBe(422);
    expect((await evm.api.tryCommit(task(user))).status, "PUBLIC needs none").toBe(201);
    expect((await evm.api.get(`/v1/trust/list?user_id=${user}`, token)).status).toBe(200);
  });

  test("[TR2] a token at a later create binds nothing", async () => {
    const user = newUser();
    expect((await evm.api.post("/v1/trust/create", { user_id: user })).status).toBe(201);
    expect((await evm.api.post("/v1/trust/create", { user_id: user }, { "x-user-token": "late" })).status).toBe(201);
    expect((await evm.api.post("/v1/trust/create", { user_id: user })).status).toBe(201);
  });
});
