import { once } from "node:events";
import { createServer } from "node:net";

const HOST = "127.0.0.1";

/** Whether something could listen on this port of the loopback interface now. */
export async function isPortFree(port: number): Promise<boolean> {
  return (await tryToListen(port)) !== null;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const port = await tryToListen(0);
  if (port === null) throw new Error("no free port");
  return port;
}

async function tryToListen(port: number): Promise<number | null> {
  const server = createServer();
  try {
    server.listen({ port, host: HOST, exclusive: true });
    await once(server, "listening");
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : null;
  } catch {
    return null;
  } finally {
    server.close();
  }
}
