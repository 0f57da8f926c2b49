// Reads a message of the channel between front and hub as the tests understand it, apart from the code under test.
import type { ToFront, ToHub } from "../../src/coordinator/http/channel-messages.ts";

/** The parts of a message. One with a long text after its JSON is a single part that ends with this text. */
export function partsOf<Part extends ToFront | ToHub>(message: string): Part[] {
  const [first = "", ...others] = message.split("\n");
  const parts = JSON.parse(first);
  return others.length === 0 ? parts : [[...parts, others.join("\n")] as Part];
}
