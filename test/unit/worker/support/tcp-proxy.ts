import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A stretch of network before a server, which can be cut as cables are: nobody is told. */
export class TcpProxy {
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #port = 0;

  /** `target` is `host:port`. */
  static async before(target: string): Promise<TcpProxy> {
    const proxy = new TcpProxy();
    const { hostname, port } = new URL(`tcp://${target}`);
    const server = createServer((near) => {
      const far = connect(Number(port), hostname);
      const pair = [near, far] as const;
      proxy.#pairs.add(pair);
      near.pipe(far).pipe(near);
      for (const socket of pair) socket.on("error", () => {});
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address !== null && typeof address === "object") proxy.#port = address.port;
    onTestFinished(() => {
      for (const socket of [...proxy.#pairs].flat()) socket.destroy();
      server.close();
    });
    return proxy;
  }

  get host(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** From now on nothing gets through on the connections that are open; new ones work. */
  cut(): void {
    for (const [near, far] of this.#pairs) {
      near.unpipe(far);
      far.unpipe(near);
      near.pause();
      far.pause();
    }
  }
}
