import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { errorCodes } from '../../src/errors.ts'
import { deadCodes } from './error-rules.ts'
import { explains, parseErrorsDoc, renderErrorsDoc, UNWRITTEN } from './errors-doc.ts'
import { readSources, root, tree } from './tree.ts'

const path = `${root}/docs/errors.md`
const page = existsSync(path) ? readFileSync(path, 'utf8') : ''
const doc = parseErrorsDoc(page)

describe('docs/errors.md and the table in src/errors.ts say the same', () => {
  test('every code has a section and every section is a code, in the same order', () => {
    expect(doc.sections.map((section) => section.code)).toEqual(Object.keys(errorCodes))
  })

  test('kind and next step are those of the table (npm run update:errors)', () => {
    expect(page).toBe(renderErrorsDoc(errorCodes, doc))
  })

  test('every section explains itself in two sentences or more', () => {
    expect(doc.sections.filter((section) => !explains(section.text)).map((section) => section.code)).toEqual([])
  })

  test('control: a missing, a foreign and a changed section are found; sentences survive a rewrite', () => {
    const table = { A: { kind: 'refused', next: 'Do a.' }, B: { kind: 'halts', next: 'Do b.' } } as const
    const old = parseErrorsDoc('# Errors\n\n## A\n\n**halts** · Do x.\n\nIt broke. It is told.\n\n## C\n\nx\n')
    const fresh = renderErrorsDoc(table, old)
    expect(fresh).toBe(
      `# Errors\n\n## A\n\n**refused** · Do a.\n\nIt broke. It is told.\n\n## B\n\n**halts** · Do b.\n\n${UNWRITTEN}\n`,
    )
    expect(renderErrorsDoc(table, parseErrorsDoc(fresh))).toBe(fresh)
    expect(parseErrorsDoc(fresh).sections.map((section) => explains(section.text))).toEqual([true, false])
  })
})

describe('no code is dead', () => {
  test('every code of the table is raised somewhere in src', () => {
    expect(deadCodes(Object.keys(errorCodes), readSources())).toEqual([])
  })

  test('control: asking for a code does not raise it', () => {
    const files = tree({
      'src/errors.ts': "const table = { A: {}, B: 'A' }",
      'src/chain/a.ts': [
        "throw new TidemarkError('B', 'sentence')",
        "if (TidemarkError.has(error, 'A') || error.code === 'C') return",
        "switch (code) { case 'D': break }",
        "type Some = 'E'",
        "const codes = { f: 'F' }",
      ].join('\n'),
    })
    expect(deadCodes(['A', 'B', 'C', 'D', 'E', 'F'], files)).toEqual(['A', 'C', 'D', 'E'])
  })
})
