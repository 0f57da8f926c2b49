import { PLACEHOLDER_PAY_TO, type Settings } from "../config.ts";
import { logWarning } from "../log.ts";

const warned = new WeakSet<Settings>();

/** Warns, once per isolate, that an instance asks for payments to an address that is nobody's: its commits cannot be paid for. */
export function warnOfPlaceholder(settings: Settings): void {
  const { instance, network, testnetMode, payment } = settings;
  if (testnetMode || warned.has(settings) || payment.payTo !== PLACEHOLDER_PAY_TO[instance]) return;
  warned.add(settings);
  logWarning("placeholder_pay_to", { instance, network, setting: instance === "evm" ? "EVM_PAY_TO" : "SVM_PAY_TO", pay_to: payment.payTo });
}
