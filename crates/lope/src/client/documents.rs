//! Small documents that a program keeps beside its runs, under names of its own: read, listed, and
//! replaced only if they are as they were read.
//!
//! They live in the table `app_state`, under keys that no handler of messages uses, so that they
//! are checked, copied and backed up with everything else.

use lope_store::StoreResult;
use lope_store::tables::{At, Batch, Guard, Range, TableId, Write};

use super::Client;

/// What the keys of documents begin with.
const PREFIX: &[u8] = b"lope.document/";

impl Client {
    /// A document, if there is one of this name.
    pub async fn document(&self, name: &str) -> StoreResult<Option<Vec<u8>>> {
        let found = self.store().tables.get(&[at(name)]).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Documents whose names begin so, by name, at most `limit`.
    pub async fn documents(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(String, Vec<u8>)>> {
        let range = Range::prefix(TableId::APP_STATE, &at(prefix).key, limit);
        let rows = self.store().tables.range(range).await?;
        let named = rows.into_iter().map(|row| {
            let name = String::from_utf8_lossy(&row.key[PREFIX.len()..]).into_owned();
            (name, row.value)
        });
        Ok(named.collect())
    }

    /// Put a document, whatever was there.
    pub async fn put_document(&self, name: &str, value: Vec<u8>) -> StoreResult<()> {
        self.change(Vec::new(), Write::Put(at(name), value)).await?;
        Ok(())
    }

    /// Put a document if what is there is what was read; absent: if nothing is. False: somebody
    /// else was faster.
    pub async fn replace_document(
        &self,
        name: &str,
        read: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> StoreResult<bool> {
        match read {
            None => self.change(Vec::new(), Write::Create(at(name), value)),
            Some(read) => self.change(
                vec![Guard::Equals(at(name), read)],
                Write::Put(at(name), value),
            ),
        }
        .await
    }

    pub async fn remove_document(&self, name: &str) -> StoreResult<()> {
        self.change(Vec::new(), Write::Delete(at(name))).await?;
        Ok(())
    }

    async fn change(&self, guards: Vec<Guard>, write: Write) -> StoreResult<bool> {
        let writes = vec![write];
        let batch = Batch { guards, writes };
        let replies = self.store().tables.commit(vec![batch]).await?;
        Ok(replies.into_iter().all(|reply| reply.is_ok()))
    }
}

fn at(name: &str) -> At {
    At::new(TableId::APP_STATE, [PREFIX, name.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_document_is_replaced_only_as_it_was_read() {
        let client = Client::open("memory:").await.unwrap();
        let bytes = |text: &str| text.as_bytes().to_vec();
        assert!(
            client
                .replace_document("a/1", None, bytes("x"))
                .await
                .unwrap()
        );
        assert!(
            !client
                .replace_document("a/1", None, bytes("y"))
                .await
                .unwrap()
        );
        let stale = client.replace_document("a/1", Some(bytes("z")), bytes("y"));
        assert!(!stale.await.unwrap());
        let fresh = client.replace_document("a/1", Some(bytes("x")), bytes("y"));
        assert!(fresh.await.unwrap());
        client.put_document("a/2", bytes("2")).await.unwrap();
        client.put_document("b", bytes("b")).await.unwrap();
        let listed = client.documents("a/", 10).await.unwrap();
        assert_eq!(
            listed,
            [
                ("a/1".to_owned(), bytes("y")),
                ("a/2".to_owned(), bytes("2"))
            ]
        );
        client.remove_document("a/1").await.unwrap();
        assert_eq!(client.document("a/1").await.unwrap(), None);
    }
}
