import { describe, expect, test } from "vitest";
import { readSettings, SettingsError } from "../../../src/coordinator/config.ts";

const evm = (payTo: string) => () => readSettings({ INSTANCE: "evm", EVM_PAY_TO: payTo });
const svm = (payTo: string) => () => readSettings({ INSTANCE: "svm", SVM_PAY_TO: payTo });

test.each([
  ["Compute.Example:443", "compute.example"],
  ["compute.example:8443", "compute.example:8443"],
  ["compute.example:80", "compute.example:80"],
])("[WS2] PUBLIC_HOST %s is %s: workers sign it as a URL has it", (text, host) => {
  expect(readSettings({ INSTANCE: "evm", PUBLIC_HOST: text }).publicHost).toBe(host);
});

test("[PY1] the network is one of the instance's chain: nobody could pay on another one", () => {
  for (const [instance, name, wrong] of [
    ["evm", "EVM_NETWORK", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"],
    ["evm", "EVM_NETWORK", "eip155:abc"],
    ["svm", "SVM_NETWORK", "eip155:1"],
  ] as const)
    expect(() => readSettings({ INSTANCE: instance, [name]: wrong })).toThrow(name);
  expect(readSettings({ INSTANCE: "evm", EVM_NETWORK: "eip155:143" }).network).toBe("eip155:143");
});

test("[LM3] numbers and booleans of a wrangler file count as their text, and every other value is refused: a limit must not be ignored", () => {
  const read = readSettings({ INSTANCE: "evm", STORAGE_BYTES: 400_000_000, TESTNET_MODE: true, COMMITS_PER_MINUTE: "", HUB: {}, DB: {} });
  const written = readSettings({ INSTANCE: "evm", STORAGE_BYTES: "400000000", TESTNET_MODE: "true" });
  expect(read).toEqual(written);
  expect(read.testnetMode).toBe(true);
  for (const wrong of [[400_000_000], { bytes: 400_000_000 }, null, 0.5, false])
    expect(() => readSettings({ INSTANCE: "evm", STORAGE_BYTES: wrong })).toThrow("STORAGE_BYTES");
});

test("[LM2] TRUSTED_IP_HEADER: Forwarded is refused, because its entries are no plain addresses", () => {
  for (const name of ["Forwarded", "forwarded"]) expect(() => readSettings({ INSTANCE: "evm", TRUSTED_IP_HEADER: name })).toThrow("TRUSTED_IP_HEADER");
  expect(readSettings({ INSTANCE: "evm", TRUSTED_IP_HEADER: "X-Forwarded-For" }).trustedIpHeader).toBe("X-Forwarded-For");
});

test.each(["https://user:secret@f.example", "https://f.example/x402?key=secret", "https://f.example/?", "https://f.example/#"])(
  "[PY1] a facilitator at %s could never be asked: the setting is refused, and the error does not repeat it",
  (facilitator) => {
    for (const instance of ["evm", "svm"] as const) {
      const read = () => readSettings({ INSTANCE: instance, [`${instance.toUpperCase()}_FACILITATOR`]: facilitator });
      expect(read).toThrow(`${instance.toUpperCase()}_FACILITATOR`);
      expect(read).not.toThrow("secret");
    }
  },
);

describe("where the money goes", () => {
  // The examples of EIP-55.
  const CHECKSUMMED = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
  ];

  test.each(CHECKSUMMED)("[PY1] %s is accepted as a payee, and so is its lower-case form", (payTo) => {
    expect(evm(payTo)().payment.payTo).toBe(payTo);
    expect(evm(payTo.toLowerCase())).not.toThrow();
  });

  test.each([
    ["one wrong letter of an EIP-55 address", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"],
    ["two digits swapped", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeeAd"],
    ["too short", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Bea"],
    ["no 0x", "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"],
  ])("[PY1] %s is refused, and the error names the setting, not the value", (_, payTo) => {
    expect(evm(payTo)).toThrow(SettingsError);
    expect(evm(payTo)).toThrow("EVM_PAY_TO");
    expect(evm(payTo)).not.toThrow(payTo);
  });

  test.each([
    ["31 bytes", "1111111111111111111111111111111"],
    ["a letter that base58 has not", "3eUGXu7U5LZPevkSXfvVyejdobFp8Evo1pqobeN4LRM0"],
    ["more than 32 bytes", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"],
  ])("[PY1] on SVM %s is refused", (_, payTo) => {
    expect(svm(payTo)).toThrow("SVM_PAY_TO");
  });

  test("[PY1] on SVM a Solana address is accepted", () => {
    expect(svm("3eUGXu7U5LZPevkSXfvVyejdobFp8Evo1pqobeN4LRMb")).not.toThrow();
  });

  test("[PY8] the Authorization header for the facilitator is a secret of its instance, and must be valid in a header", () => {
    const { payment } = readSettings({ INSTANCE: "evm", EVM_FACILITATOR_AUTHORIZATION: "Bearer x", SVM_FACILITATOR_AUTHORIZATION: "Bearer y" });
    expect(payment.authorization).toBe("Bearer x");
    expect(() => readSettings({ INSTANCE: "svm", SVM_FACILITATOR_AUTHORIZATION: "a\nb" })).toThrow("SVM_FACILITATOR_AUTHORIZATION");
  });

  test("[PY11] on SVM a network without a known token is a wrong setting where jobs are paid, and no matter where they are free", () => {
    const on = (TESTNET_MODE: string) => () => readSettings({ INSTANCE: "svm", SVM_NETWORK: "solana:unknown", TESTNET_MODE });
    expect(on("false")).toThrow("Invalid setting SVM_NETWORK");
    expect(on("true")).not.toThrow();
  });
});
