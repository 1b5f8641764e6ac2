// The headers that every request carries: who asks, in which tenant and project.

/** @param {{mode: string, tenant: string, project: string, token: string | null}} who */
export function buildIdentityHeaders(who) {
  const headers = {
    'X-Mode': who.mode,
    'X-Tenant-Id': who.tenant,
    'X-Project-Id': who.project,
    'X-Request-Id': crypto.randomUUID(),
    'X-Surface-Id': 'console',
    'X-App-Id': 'console',
  };
  if (who.token) headers.Authorization = `Bearer ${who.token}`;
  return headers;
}
