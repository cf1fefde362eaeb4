import type { Io } from './io.ts'

/** What a flag takes: nothing, or one value that is called `value` in the help. */
export interface FlagSpec {
  readonly name: string
  readonly value?: string
  readonly summary: string
}

export interface CommandSpec {
  readonly name: string
  readonly summary: string
  /** Names of the arguments, all of them required. */
  readonly args: readonly string[]
  readonly flags: readonly FlagSpec[]
  readonly examples: readonly string[]
  /** Loaded when called: `--help` needs neither a driver nor a compiler. */
  load(): Promise<CommandFunction>
}

/** Values by flag name; a flag without a value is `true`. */
export type Flags = Readonly<Record<string, string | true | undefined>>

export interface Call {
  readonly io: Io
  readonly args: readonly string[]
  readonly flags: Flags
}

/** Answers the exit code. Throws what `errors.ts` prints. */
export type CommandFunction = (call: Call) => Promise<number>

export function textFlag(flags: Flags, name: string): string | undefined {
  const value = flags[name]
  return value === true ? undefined : value
}
