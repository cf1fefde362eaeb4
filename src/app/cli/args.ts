import { parseArgs } from 'node:util'
import { TidemarkError } from '../../errors.ts'
import { nearest } from '../../util/nearest.ts'
import type { CommandSpec, FlagSpec, Flags } from './command.ts'
import { commands } from './commands.ts'

/** What the arguments ask for. */
export type Request =
  | { readonly kind: 'help'; readonly command: CommandSpec | null; readonly asked: boolean }
  | { readonly kind: 'version' }
  | { readonly kind: 'call'; readonly command: CommandSpec; readonly args: readonly string[]; readonly flags: Flags }

const HELP: FlagSpec = { name: 'help', summary: 'show this help' }

function hint(suggestion: string | undefined): string {
  return suggestion ? `; did you mean '${suggestion}'?` : ''
}

function findCommand(name: string): CommandSpec {
  const found = commands.find((command) => command.name === name)
  if (found) return found
  const names = commands.map((command) => command.name)
  throw new TidemarkError('COMMAND_UNKNOWN', `There is no command '${name}'${hint(nearest(name, names))}`, {
    values: { commands: names },
  })
}

function wrongFlag(command: CommandSpec, sentence: string): TidemarkError {
  return new TidemarkError('FLAG_INVALID', sentence, { values: { command: command.name } })
}

interface OptionToken {
  readonly kind: string
  readonly name?: string
  readonly rawName?: string
  readonly value?: string | undefined
  readonly inlineValue?: boolean | undefined
}

/** parseArgs is lenient here and judged by its tokens: its own refusals can be told apart only by their English. */
function checkToken(command: CommandSpec, token: OptionToken, specs: readonly FlagSpec[]): void {
  if (token.kind !== 'option') return
  const spec = specs.find((flag) => flag.name === token.name)
  if (!spec) {
    const suggestion = nearest(
      token.name ?? '',
      specs.map((flag) => flag.name),
    )
    throw wrongFlag(command, `There is no flag '${token.rawName}'${hint(suggestion && `--${suggestion}`)}`)
  }
  // `--config --json`: the next flag is not meant as a value. A value that begins with a dash is given as --flag=-value.
  const missing = token.value === undefined || (!token.inlineValue && token.value.startsWith('-'))
  if (spec.value && missing)
    throw wrongFlag(command, `The flag --${spec.name} needs a value: --${spec.name} <${spec.value}>`)
  if (!spec.value && token.inlineValue) throw wrongFlag(command, `The flag --${spec.name} takes no value`)
}

function checkArgs(command: CommandSpec, args: readonly string[]): void {
  const missing = command.args[args.length]
  if (missing) throw wrongFlag(command, `'tidemark ${command.name}' needs <${missing}>`)
  const extra = args[command.args.length]
  if (extra !== undefined) throw wrongFlag(command, `'tidemark ${command.name}' has no use for '${extra}'`)
}

function parseCommand(command: CommandSpec, argv: readonly string[]): Request {
  const specs = [...command.flags, HELP]
  const options = Object.fromEntries(
    specs.map((flag) => [flag.name, { type: flag.value ? ('string' as const) : ('boolean' as const) }]),
  )
  const parsed = parseArgs({
    args: [...argv],
    options: { ...options, help: { type: 'boolean', short: 'h' } },
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  for (const token of parsed.tokens) checkToken(command, token, specs)
  if (parsed.values.help) return { kind: 'help', command, asked: true }
  checkArgs(command, parsed.positionals)
  return { kind: 'call', command, args: parsed.positionals, flags: parsed.values as Flags }
}

/** `tidemark help [command]`: what `--help` says. */
function helpOf(argv: readonly string[]): Request {
  const [name, extra] = argv.filter((one) => one !== '--help' && one !== '-h')
  const command = name === undefined ? null : findCommand(name)
  if (extra !== undefined)
    throw new TidemarkError('FLAG_INVALID', `'tidemark help' has no use for '${extra}'`, {
      values: { command: 'help' },
    })
  return { kind: 'help', command, asked: true }
}

/** @throws {TidemarkError} `COMMAND_UNKNOWN`, `FLAG_INVALID`, each with the nearest name */
export function parseCommandLine(argv: readonly string[]): Request {
  const [first, ...rest] = argv
  if (first === undefined) return { kind: 'help', command: null, asked: false }
  if (first === '--help' || first === '-h') return { kind: 'help', command: null, asked: true }
  if (first === 'help') return helpOf(rest)
  if (first === '--version' || first === '-v') return { kind: 'version' }
  return parseCommand(findCommand(first), rest)
}
