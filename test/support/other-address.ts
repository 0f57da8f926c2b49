// Another address of this machine than 127.0.0.1: a server that should be there for this machine only must not answer on it.
import { connect } from "node:net";
import { networkInterfaces } from "node:os";

/** On Linux all of 127.0.0.0/8 is this machine, also without a network. Elsewhere it is an address that other machines reach; undefined if there is none. */
function otherAddress(): string | undefined {
  if (process.platform === "linux") return "127.0.0.2";
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ internal, family }) => !internal && family === "IPv4")?.address;
}

/** Connects to a port on the other address; resolves to "connected" or to the code of the error, `ECONNREFUSED` where nobody listens. */
export async function connectElsewhere(port: number): Promise<string> {
  const host = otherAddress();
  if (host === undefined) return "ECONNREFUSED";
  return await new Promise((resolve) => {
    const socket = connect({ host, port });
    socket.once("connect", () => {
      socket.destroy();
      resolve("connected");
    });
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });
}
