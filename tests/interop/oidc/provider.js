// A certified OpenID provider (oidc-provider) on a free port of this machine. It logs in one account without questions, and falsifies its
// answers on request:
//
//   node provider.js '{"client_id": …, "client_secret": …, "redirect_uris": […]}'   prints {"port": …}; ends when its input is closed
//   POST /test {"account": {…claims…}, "falsify": {…}}                             for all later logins
//
// `falsify` may have: `claims` (of the ID token; null removes one), `alg` and `key` (how the token is signed again), `document` (fields of the
// discovery document), `answer` (the whole body of the token endpoint), `status`, `location`, and `delay` (true: the token endpoint does not answer).
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import Provider from 'oidc-provider';

const client = JSON.parse(process.argv[2]);
const own = await generateKeyPair('RS256', { extractable: true });
const other = await generateKeyPair('RS256', { extractable: true });
const key = async (pair, kid) => ({ ...(await exportJWK(pair)), kid, alg: 'RS256', use: 'sig' });

let account = { sub: 'nobody' };
let falsify = {};

async function signAgain(token) {
  const claims = { ...JSON.parse(Buffer.from(token.split('.')[1], 'base64url')), ...falsify.claims };
  for (const [name, value] of Object.entries(claims)) if (value === null) delete claims[name];
  if (falsify.alg === 'none') return new UnsecuredJWT(claims).encode();
  if (falsify.alg === 'HS256') {
    return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'own' }).sign(new TextEncoder().encode(client.client_secret.padEnd(32, '.')));
  }
  // `other`: a stranger's key under the name of the provider's; `new`: a key that the provider has published a moment ago.
  const [kid, pair] = { other: ['own', other], new: ['new', other], unknown: ['unknown', other] }[falsify.key] ?? ['own', own];
  return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid }).sign(pair.privateKey);
}

function read(request) {
  return new Promise((resolve) => {
    let text = '';
    request.on('data', (part) => { text += part; });
    request.on('end', () => resolve(text));
  });
}

const server = createServer();
server.listen(0, '127.0.0.1', async () => {
  const { port } = server.address();
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [{ ...client, grant_types: ['authorization_code'], response_types: ['code'] }],
    jwks: { keys: [await key(own.privateKey, 'own')] },
    cookies: { keys: ['for tests only'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    conformIdTokenClaims: false,
    claims: { openid: ['sub'], profile: ['name', 'preferred_username', 'groups', 'realm_access'], email: ['email'] },
    findAccount: (_, id) => ({ accountId: id, claims: () => account }),
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope('openid profile email');
      await grant.save();
      return grant;
    },
  });
  provider.use(async (ctx, next) => {
    await next();
    if (ctx.path === '/.well-known/openid-configuration') ctx.body = { ...ctx.body, ...falsify.document };
    if (ctx.path === '/jwks' && falsify.key === 'new') {
      ctx.body = { keys: [...ctx.body.keys, await key(other.publicKey, 'new')] };
    }
    if (ctx.path !== '/token' || ctx.status !== 200) return;
    if (falsify.delay) await new Promise(() => {});
    if (falsify.claims || falsify.alg || falsify.key) ctx.body = { ...ctx.body, id_token: await signAgain(ctx.body.id_token) };
    if (falsify.answer !== undefined) ctx.body = falsify.answer;
    if (falsify.location) ctx.set('Location', falsify.location);
    if (falsify.status) ctx.status = falsify.status;
  });
  const answer = provider.callback();
  server.on('request', async (request, response) => {
    if (request.url === '/test') {
      ({ account = account, falsify = {} } = JSON.parse(await read(request)));
      response.end();
    } else if (request.url.startsWith('/interaction/')) {
      await provider.interactionFinished(request, response, account.denied ? { error: 'access_denied' } : { login: { accountId: account.sub }, consent: {} });
    } else {
      answer(request, response);
    }
  });
  console.log(JSON.stringify({ port }));
});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
