import { beforeAll, expect, test } from "vitest";
import { start, type Subject } from "../support/coordinator.ts";
import { registerText, signText } from "../support/identity.ts";
import { WorkerSocket } from "../support/worker.ts";

let subject: Subject;

beforeAll(async () => {
  subject = await start("evm", { TESTNET_MODE: "true", PUBLIC_HOST: "compute.example:8443" });
});

test("[WS2] PUBLIC_HOST is the challenge's host, and what is signed", async () => {
  const worker = await WorkerSocket.open(subject.socketUrl);
  const challenge = await worker.challenge();
  expect(challenge.host).toBe("compute.example:8443");
  expect(await worker.registerSigned()).toMatchObject({ status: "ok", authenticated: true });
  const dialled = await WorkerSocket.open(subject.socketUrl);
  const signature = signText(dialled.identity, registerText({ ...(await dialled.challenge()), host: subject.host }, dialled.pubkey));
  expect(await dialled.registerPlain({ signature })).toMatchObject({ status: "error", error: "invalid_signature" });
  expect((await dialled.ended()).code).toBe(4401);
});
