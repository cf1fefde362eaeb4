import { tmpdir } from 'node:os'
import type { Io, StopSignal } from '../../src/app/cli/io.ts'
import type { Output } from '../../src/app/terminal.ts'
import { testWorld } from '../../src/testkit/test-world.ts'
import type { World } from '../../src/util/world.ts'

/** What was written, kept. */
export class Written implements Output {
  readonly isTTY: boolean
  readonly columns: number
  text = ''

  constructor(isTTY = false, columns = 200) {
    this.isTTY = isTTY
    this.columns = columns
  }

  write(text: string): void {
    this.text += text
  }
}

export interface TestIo extends Io {
  readonly stdout: Written
  readonly stderr: Written
  /** Sends a signal to the command. */
  signal(signal: StopSignal): void
}

/** The outside of a command, in memory. */
export function testIo(given: { cwd?: string; env?: Io['env']; tty?: boolean; world?: World } = {}): TestIo {
  const listeners = new Set<(signal: StopSignal) => void>()
  return {
    env: given.env ?? {},
    cwd: given.cwd ?? tmpdir(),
    stdout: new Written(given.tty),
    stderr: new Written(given.tty),
    world: given.world ?? testWorld(),
    onSignal: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    userName: () => 'ada',
    signal: (signal) => {
      for (const listener of listeners) listener(signal)
    },
  }
}
