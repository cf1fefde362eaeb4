import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/**
 * What happens to a piece of bytes on its way to the server:
 *
 * - `forward`: it goes on
 * - `cut`: the connection breaks before the server has seen it
 * - `cut answer`: it goes on, and the connection breaks when the server answers, before the client has seen the answer
 */
export type Verdict = 'forward' | 'cut' | 'cut answer'

/** Decides by the bytes that a client sends. Drivers write a statement in one piece. */
export type CuttingRule = (bytes: Buffer) => Verdict

export interface TcpProxy {
  readonly port: number
  /** Replaces the rule for bytes that come from now on. */
  rule: CuttingRule
  /** How often a connection was cut. */
  readonly cuts: number
  /** Nothing passes in either direction, and nothing breaks, until `thaw`. */
  freeze(): void
  thaw(): void
  close(): Promise<void>
}

export const forwardAll: CuttingRule = () => 'forward'

interface State {
  rule: CuttingRule
  cuts: number
  readonly sockets: Set<Socket>
}

function pipe(client: Socket, server: Socket, state: State): void {
  let answerIsCut = false
  const end = () => {
    client.destroy()
    server.destroy()
  }
  const cut = () => {
    state.cuts++
    end()
  }
  client.on('data', (bytes: Buffer) => {
    const verdict = state.rule(bytes)
    if (verdict === 'cut') return cut()
    answerIsCut ||= verdict === 'cut answer'
    server.write(bytes)
  })
  server.on('data', (bytes: Buffer) => {
    if (answerIsCut) cut()
    else client.write(bytes)
  })
  for (const socket of [client, server]) {
    state.sockets.add(socket)
    socket.on('error', end)
    socket.on('close', () => {
      state.sockets.delete(socket)
      end()
    })
  }
}

/** A proxy in front of a database, on a free port of 127.0.0.1: it knows no protocol, the rule does. */
export async function tcpProxy(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
  const state: State = { rule: forwardAll, cuts: 0, sockets: new Set() }
  const listener = createServer((client) => pipe(client, connect(target.port, target.host), state))
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    port: (listener.address() as AddressInfo).port,
    get rule() {
      return state.rule
    },
    set rule(rule) {
      state.rule = rule
    },
    get cuts() {
      return state.cuts
    },
    freeze: () => {
      for (const socket of state.sockets) socket.pause()
    },
    thaw: () => {
      for (const socket of state.sockets) socket.resume()
    },
    close: async () => {
      for (const socket of state.sockets) socket.destroy()
      listener.close()
      await once(listener, 'close')
    },
  }
}
