import type { CommandSpec, FlagSpec } from './command.ts'
import { commands } from './commands.ts'
import { EXIT_HELP } from './exit-codes.ts'

function columns(rows: readonly (readonly [left: string, right: string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}

function flagRow({ name, value, summary }: FlagSpec): [string, string] {
  return [`--${name}${value ? ` <${value}>` : ''}`, summary]
}

/** `tidemark --help`. */
export function generalHelp(): string {
  const rows = commands.map(
    (command) => [[command.name, ...command.args.map((arg) => `<${arg}>`)].join(' '), command.summary] as const,
  )
  return [
    'Usage: tidemark <command> [flags]',
    '',
    ...columns(rows),
    '',
    ...columns([
      ['--help', 'show this, or the help of a command: tidemark run --help, tidemark help run'],
      ['--version', 'print the version'],
    ]),
    '',
    'Settings: a flag beats its environment variable, which beats the configuration file.',
    '',
    'Exit codes:',
    ...columns(EXIT_HELP.map(([code, meaning]) => [String(code), meaning])),
    '',
  ].join('\n')
}

/** `tidemark <command> --help`. */
export function commandHelp(command: CommandSpec): string {
  const usage = ['tidemark', command.name, ...command.args.map((arg) => `<${arg}>`), '[flags]'].join(' ')
  const flags = columns([...command.flags.map(flagRow), ['--help', 'show this help']])
  return [
    `${command.summary}.`,
    '',
    `Usage: ${usage}`,
    '',
    ...flags,
    '',
    'Examples:',
    ...command.examples.map((line) => `  ${line}`),
    '',
  ].join('\n')
}
