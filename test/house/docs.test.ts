import { posix } from 'node:path'
import { describe, expect, test } from 'vitest'
import { snippetErrors, snippets } from './snippets.ts'
import { readTree, root, tree } from './tree.ts'

const documents = readTree((path) => /^(README\.md|docs\/.*\.md|examples\/.*\.md)$/.test(path))
const readme = documents.get('README.md') ?? ''

describe('the code in the documents compiles', () => {
  test('README and docs', { timeout: 120_000 }, () => {
    const found = snippets(documents)
    console.log(`${found.length} ts blocks in ${new Set(found.map((snippet) => snippet.path)).size} documents`)
    expect(snippetErrors(found)).toEqual([])
  })

  test('control: a wrong type and a wrong name are found at their line', { timeout: 120_000 }, () => {
    const fence = '```'
    const text = `# A\n\n${fence}ts\nconst a: number = 'x'\n${fence}\n\n${fence}text\nnot code\n${fence}\n\n${fence}ts\nmissing()\n${fence}\n`
    expect(snippetErrors(snippets(tree({ 'docs/a.md': text })))).toEqual([
      "docs/a.md:4 Type 'string' is not assignable to type 'number'.",
      "docs/a.md:12 Cannot find name 'missing'.",
    ])
  })
})

describe('README', () => {
  test('names the two commands that do all the set-up, and .ci/run calls the same ones', () => {
    expect(readme).toContain('npm ci && npm run demo')
    expect(readme).toContain('npm ci && npm test')
    const ci = readTree((path) => path === '.ci/run').get('.ci/run') ?? ''
    expect(ci).toMatch(/^npm ci\b/m)
    expect(ci).toMatch(/^npm test$/m)
  })
})

/** Links to files of the checkout that are not there. */
function brokenLinks(files: ReadonlyMap<string, string>, known: ReadonlySet<string>): string[] {
  return [...files].flatMap(([path, text]) =>
    [...text.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)/g)]
      .map((match) => posix.join(posix.dirname(path), match[1] ?? ''))
      .filter((target) => !known.has(target.replace(/\/$/, '')))
      .map((target) => `${path} -> ${target}`),
  )
}

describe('links between documents', () => {
  test('lead to files that exist', () => {
    const all = [...readTree(() => true).keys()]
    const folders = all.flatMap((path) => path.split('/').map((_, depth, parts) => parts.slice(0, depth).join('/')))
    const written = readTree((path) => path.endsWith('.md'))
    expect(root).not.toBe('')
    expect(brokenLinks(written, new Set([...all, ...folders]))).toEqual([])
  })

  test('control: a link to a file that is gone is found', () => {
    const files = new Map([['docs/a.md', 'see [b](b.md), [c](../src/c.ts#x), [web](https://example.org/a)']])
    expect(brokenLinks(files, new Set(['src/c.ts']))).toEqual(['docs/a.md -> docs/b.md'])
  })
})
