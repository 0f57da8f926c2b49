import { connect, createServer, type Server, type Socket } from "node:net";

/** Passes the bytes of connections on to a port of this machine, and cuts them when it is told to, as a network does. */
export class CutProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(server: Server, sockets: Set<Socket>, port: number) {
    this.#server = server;
    this.#sockets = sockets;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(target: number): Promise<CutProxy> {
    const sockets = new Set<Socket>();
    const keep = (socket: Socket): void => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    };
    const server = createServer((client) => {
      const coordinator = connect(target, "127.0.0.1");
      keep(client);
      keep(coordinator);
      client.pipe(coordinator).pipe(client);
      client.on("close", () => coordinator.destroy());
      coordinator.on("close", () => client.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    return new CutProxy(server, sockets, address.port);
  }

  /** Resets every connection that is open now. New ones are passed on. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}
