"""Login with OpenID Connect: the authorization code flow with PKCE. All that a provider sends is checked."""
