import type { Tree, Violation } from './tree.ts'

/** Written in two halves, so that this file does not hold what it looks for. */
const word = (...halves: string[]): string => halves.join('')

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`(^|[^.\\w])${word('/wo', 'rk/')}`), 'a path of one machine'],
  [new RegExp(`(^|[^.\\w])${word('/tm', 'p/')}`), 'a path of one machine'],
  [new RegExp(`(^|[^.\\w])/(${word('ro', 'ot')}|${word('ho', 'me')}/\\w+)/`), 'a path of one machine'],
  [
    new RegExp(
      `${word('npm', 'js')}\\.(org|com)|registry\\.${word('yarn', 'pkg')}|${word('verd', 'accio')}|${word('artif', 'actory')}`,
      'i',
    ),
    'a registry host',
  ],
  [new RegExp(`"${word('reso', 'lved')}":|:${word('48', '73')}\\b`), 'a registry host'],
  [
    new RegExp(
      `\\b(${word('Clau', 'de')}|${word('Anth', 'ropic')}|${word('Chat', 'GPT')}|${word('Open', 'AI')}|${word('Copi', 'lot')}|${word('LL', 'M')}s?|language ${word('mod', 'el')}|AI[- ]${word('gener', 'ated')}|${word('Co-Auth', 'ored-By')})\\b`,
      'i',
    ),
    'how the text was made',
  ],
]

/** Nothing in the checkout names a path of one machine, a registry host, or the tools that wrote it. One finding per line and pattern. */
export function machineWords(files: Tree): Violation[] {
  const violations: Violation[] = []
  for (const [path, text] of files) {
    text.split('\n').forEach((line, index) => {
      for (const [pattern, what] of PATTERNS) {
        if (pattern.test(line)) violations.push({ path, line: index + 1, what })
      }
    })
  }
  return violations
}
