import { userInfo } from 'node:os'
import { realWorld, type World } from '../../util/world.ts'
import type { Output } from '../terminal.ts'

export type StopSignal = 'SIGINT' | 'SIGTERM'

/** Everything outside of the program that a command touches, so that a test can hand in its own. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly stdout: Output
  readonly stderr: Output
  readonly world: World
  /** Listens to SIGINT and SIGTERM. Returns the function that stops listening. */
  onSignal(listener: (signal: StopSignal) => void): () => void
  /** Who runs the command, for the audit row. */
  userName(): string
}

/** Width of a terminal that does not tell, or says 0. */
const DEFAULT_COLUMNS = 80

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) => void stream.write(text),
    isTTY: stream.isTTY === true,
    get columns() {
      return stream.columns || DEFAULT_COLUMNS
    },
  }
}

function onSignal(listener: (signal: StopSignal) => void): () => void {
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.on(signal, listener)
  return () => {
    for (const signal of signals) process.off(signal, listener)
  }
}

/** In a container the user id often has no name; then the environment, then the id. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return process.env.USER || `user ${process.getuid?.() ?? 'unknown'}`
  }
}

export function processIo(): Io {
  return {
    env: process.env,
    cwd: process.cwd(),
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    world: realWorld,
    onSignal,
    userName,
  }
}
